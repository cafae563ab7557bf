//! The CPU core as if it had several devices, with a script that is asked before each stage.

use std::sync::Arc;

use blstrs::Bls12;
use interlock_engine::circuit::Witness;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::{Blinding, Core, CoreError, CoreTask, Device, Plan, ProvingKey};
use interlock_engine::proof::Proof;

pub const NAME: &str = "scripted";

/// A stage of a task that is about to run.
pub struct Call<'a> {
    pub device: usize,
    pub stage: &'static str,
    pub witness: &'a Witness,
}

type Script = Arc<dyn Fn(&Call<'_>) -> Result<(), CoreError> + Send + Sync>;
type Load = Box<dyn Fn(&Arc<ProvingKey>) -> Result<(), CoreError> + Send + Sync>;

pub struct ScriptedCore {
    inner: CpuCore,
    devices: Vec<Device>,
    script: Script,
    load: Load,
}

impl ScriptedCore {
    /// A device for each capacity.
    pub fn new(
        capacities: &[u64],
        script: impl Fn(&Call<'_>) -> Result<(), CoreError> + Send + Sync + 'static,
    ) -> Self {
        let device = |(index, capacity_bytes): (usize, &u64)| Device {
            name: format!("card {index}"),
            capacity_bytes: *capacity_bytes,
            uuid: None,
        };
        Self {
            inner: CpuCore::new(1 << 30, Some(1)).expect("a thread"),
            devices: capacities.iter().enumerate().map(device).collect(),
            script: Arc::new(script),
            load: Box::new(|_| Ok(())),
        }
    }

    /// Its devices with these UUIDs.
    pub fn with_uuids(mut self, uuids: &[&str]) -> Self {
        for (device, uuid) in self.devices.iter_mut().zip(uuids) {
            device.uuid = Some((*uuid).to_owned());
        }
        self
    }

    pub fn on_load(
        self,
        load: impl Fn(&Arc<ProvingKey>) -> Result<(), CoreError> + Send + Sync + 'static,
    ) -> Self {
        Self { load: Box::new(load), ..self }
    }
}

/// What a device says that is gone.
pub fn lost(device: usize) -> CoreError {
    CoreError::DeviceLost { core: NAME, device, message: "it fell off the bus".to_owned() }
}

impl Core for ScriptedCore {
    fn name(&self) -> &'static str {
        NAME
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn load(&self, key: &Arc<ProvingKey>) -> Result<(), CoreError> {
        (self.load)(key)
    }

    fn plan(&self, key: &ProvingKey) -> Plan {
        self.inner.plan(key)
    }

    fn task(
        &self,
        device: usize,
        key: Arc<ProvingKey>,
        witness: Arc<Witness>,
        blinding: Blinding,
    ) -> Result<Box<dyn CoreTask>, CoreError> {
        let inner = self.inner.task(0, key, witness.clone(), blinding)?;
        Ok(Box::new(ScriptedTask { inner, device, witness, script: self.script.clone() }))
    }
}

struct ScriptedTask {
    inner: Box<dyn CoreTask>,
    device: usize,
    witness: Arc<Witness>,
    script: Script,
}

impl ScriptedTask {
    fn ask(&self, stage: &'static str) -> Result<(), CoreError> {
        (self.script)(&Call { device: self.device, stage, witness: &self.witness })
    }
}

impl CoreTask for ScriptedTask {
    fn prepare(&mut self) -> Result<(), CoreError> {
        self.ask("Prepare")?;
        self.inner.prepare()
    }

    fn stage(&mut self) -> Result<(), CoreError> {
        self.ask("Stage")?;
        self.inner.stage()
    }

    fn compute(&mut self) -> Result<(), CoreError> {
        self.ask("Compute")?;
        self.inner.compute()
    }

    fn finish(self: Box<Self>) -> Result<Proof<Bls12>, CoreError> {
        self.ask("Finish")?;
        self.inner.finish()
    }
}
