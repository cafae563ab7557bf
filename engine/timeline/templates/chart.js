"use strict";
// Draws every element with data-chart="ID": the Gantt chart whose data the JSON element with that id holds.
// Level of detail: a bar that is narrower than a pixel or so is not drawn by itself. Such bars of one pixel column are stacked,
// each kind as high as the part of the column it covers. So a frame costs one pass over the bars in sight, and a few strokes
// for each pixel of a lane at most.
(() => {
  const LOOKS = {
    synthesis: { fill: "#8d97a3", pattern: "dots" },
    prepare: { fill: "#56b4e9", pattern: "none" },
    stage: { fill: "#e69f00", pattern: "diagonal" },
    compute: { fill: "#0072b2", pattern: "none" },
    finish: { fill: "#009e73", pattern: "vertical" },
    verify: { fill: "#cc79a7", pattern: "dots" },
    wait: { fill: "#00000000", pattern: "outline", legend: "waits at a gate" },
    lock: { fill: "#7f6bb0", pattern: "horizontal" },
  };
  const ENDINGS = ["", "failed", "given up before it ended", "not ended when the file ends"];
  const NARROW = 1.5, BAR = 20, GAP = 4, HEADING = 26, AXIS = 24, FLAGS = 20, CAPTION = 15, PHONE = 560;

  const digits = (value) => value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2);
  function time(ns) {
    if (ns >= 7.2e12) return (ns / 3.6e12).toFixed(1) + " h";
    if (ns >= 1.2e11) return (ns / 6e10).toFixed(1) + " min";
    if (ns === 0) return "0";
    if (ns < 1e3) return ns + " ns";
    if (ns < 1e6) return digits(ns / 1e3) + " µs";
    if (ns < 1e9) return digits(ns / 1e6) + " ms";
    return digits(ns / 1e9) + " s";
  }
  function bytes(count) {
    if (count < 1024) return count + " B";
    const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = 0, value = count / 1024;
    for (; value >= 1024 && unit + 1 < units.length; unit++) value /= 1024;
    return digits(value) + " " + units[unit];
  }

  // The columns of a lane, with absolute times.
  function unpacked(columns) {
    const count = columns.gap.length, begin = new Float64Array(count), end = new Float64Array(count);
    let at = 0;
    for (let i = 0; i < count; i++) {
      begin[i] = at += columns.gap[i];
      end[i] = at += columns.length[i];
    }
    return { ...columns, begin, end, together: columns.count, count };
  }
  // The first bar that ends after `at`.
  function firstAfter(bars, at) {
    let low = 0, high = bars.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (bars.end[middle] > at) high = middle; else low = middle + 1;
    }
    return low;
  }

  class Chart {
    constructor(root, data) {
      this.data = data;
      this.groups = data.groups.map((group) => ({
        ...group, lanes: group.lanes.map((lane) => ({ name: lane.name, bars: unpacked(lane.bars) })),
      }));
      this.lanes = this.groups.flatMap((group) => group.lanes);
      this.whole = Math.max(data.length_ns, 1);
      [this.from, this.to] = [0, this.whole];
      this.chosen = null;
      this.build(root);
      new ResizeObserver(() => this.draw()).observe(this.plot);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
      this.draw();
      root.dataset.bars = this.lanes.reduce((sum, lane) => sum + lane.bars.count, 0);
    }

    build(root) {
      const element = (name, parent, properties) =>
        parent.appendChild(Object.assign(document.createElement(name), properties));
      const bar = element("div", root, { className: "bar" });
      const legend = element("ul", bar, { className: "legend" });
      legend.setAttribute("aria-label", "Legend");
      const used = new Set(this.lanes.flatMap((lane) => [...new Set(lane.bars.kind)]));
      const listed = new Set();
      this.swatches = this.data.kinds.flatMap((kind, index) => {
        // Kinds of one look stand in the legend once.
        if (!used.has(index) || listed.has(kind.look)) return [];
        listed.add(kind.look);
        const item = element("li", legend, {});
        const swatch = element("canvas", item, { width: 44, height: 28 });
        swatch.setAttribute("aria-hidden", "true");
        element("span", item, { textContent: LOOKS[kind.look]?.legend ?? kind.name });
        return [[swatch, kind.look]];
      });
      const zoom = element("div", bar, { className: "zoom" });
      const button = (text, label, act) => {
        const made = element("button", zoom, { type: "button", textContent: text, onclick: act });
        made.setAttribute("aria-label", label);
      };
      button("−", "Zoom out", () => this.zoom(2, this.middle()));
      button("+", "Zoom in", () => this.zoom(0.5, this.middle()));
      button("All", "Show the whole run", () => this.look(0, this.whole));
      this.plot = element("div", root, { className: "plot" });
      this.canvas = element("canvas", this.plot, { tabIndex: 0 });
      this.canvas.setAttribute("role", "application");
      this.canvas.setAttribute("aria-label",
        `Chart of ${this.lanes.length} lanes over ${time(this.whole)}. Left and right go from span to span, up and down ` +
        "from lane to lane, plus and minus zoom, 0 shows all. The table below says the same in words.");
      this.tip = element("div", this.plot, { className: "tip", hidden: true });
      this.said = element("p", root, { className: "said" });
      this.said.setAttribute("aria-live", "polite");
      this.hint = "Point at a span to see what it is. Drag to move, zoom with the buttons, or Ctrl and the wheel.";
      this.said.textContent = this.hint;
      this.listen();
    }

    listen() {
      const canvas = this.canvas;
      let drag = null;
      canvas.addEventListener("pointerdown", (event) => {
        drag = { x: event.clientX, from: this.from, to: this.to, moved: false };
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointermove", (event) => {
        if (drag && Math.abs(event.clientX - drag.x) > 3) drag.moved = true;
        if (drag?.moved) {
          const by = ((drag.x - event.clientX) / this.wide()) * (drag.to - drag.from);
          this.tip.hidden = true;
          this.look(drag.from + by, drag.to + by);
        } else {
          this.point(event.offsetX, event.offsetY);
        }
      });
      canvas.addEventListener("pointerup", (event) => {
        if (drag && !drag.moved) this.choose(this.hit(event.offsetX, event.offsetY));
        drag = null;
      });
      canvas.addEventListener("pointercancel", () => { drag = null; });
      canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
      canvas.addEventListener("dblclick", (event) => this.zoom(0.5, this.timeAt(event.offsetX)));
      canvas.addEventListener("wheel", (event) => {
        if (event.ctrlKey || event.metaKey) {
          this.zoom(Math.exp(event.deltaY / 300), this.timeAt(event.offsetX));
        } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
          const by = (event.deltaX / this.wide()) * (this.to - this.from);
          this.look(this.from + by, this.to + by);
        } else {
          return;
        }
        event.preventDefault();
      }, { passive: false });
      canvas.addEventListener("keydown", (event) => {
        const acts = {
          ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
          ArrowUp: () => this.stepLane(-1), ArrowDown: () => this.stepLane(1),
          "+": () => this.zoom(0.5, this.middle()), "=": () => this.zoom(0.5, this.middle()),
          "-": () => this.zoom(2, this.middle()), 0: () => this.look(0, this.whole),
          Escape: () => this.choose(null),
        };
        if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        acts[event.key]();
      });
    }

    // Axis and view.
    wide() { return Math.max(this.width - this.left, 1); }
    middle() {
      const chosen = this.chosen && this.chosen.lane.bars.begin[this.chosen.index];
      return chosen !== null && chosen >= this.from && chosen <= this.to ? chosen : (this.from + this.to) / 2;
    }
    x(at) { return this.left + ((at - this.from) / (this.to - this.from)) * this.wide(); }
    timeAt(x) { return this.from + ((x - this.left) / this.wide()) * (this.to - this.from); }
    zoom(factor, at) { this.look(at + (this.from - at) * factor, at + (this.to - at) * factor); }
    look(from, to) {
      const length = Math.min(Math.max(to - from, Math.min(100, this.whole)), this.whole);
      this.from = Math.min(Math.max(from, 0), this.whole - length);
      this.to = this.from + length;
      this.draw();
    }

    // What is chosen.
    choose(found) {
      this.chosen = found;
      this.said.textContent = found ? this.lines(found).join(" · ") : this.hint;
      this.draw();
    }
    step(by) {
      const lane = this.chosen?.lane ?? this.lanes.find((lane) => lane.bars.count);
      if (!lane) return;
      const index = this.chosen ? this.chosen.index + by : firstAfter(lane.bars, this.from);
      this.reveal({ lane, index: Math.min(Math.max(index, 0), lane.bars.count - 1) });
    }
    stepLane(by) {
      const filled = this.lanes.filter((lane) => lane.bars.count);
      if (!this.chosen) return this.step(0);
      const lane = filled[filled.indexOf(this.chosen.lane) + by];
      if (!lane) return;
      const at = this.chosen.lane.bars.begin[this.chosen.index];
      this.reveal({ lane, index: Math.min(firstAfter(lane.bars, at), lane.bars.count - 1) });
    }
    reveal(found) {
      const { begin, end } = found.lane.bars, length = this.to - this.from;
      if (end[found.index] < this.from || begin[found.index] > this.to) {
        const at = (begin[found.index] + end[found.index]) / 2;
        [this.from, this.to] = [at - length / 2, at + length / 2];
        this.look(this.from, this.to);
      }
      this.choose(found);
    }
    // The bar at a point; of several within reach the longest.
    hit(x, y) {
      const row = this.rows.find((row) => row.lane && y >= row.top && y < row.top + BAR + GAP / 2);
      if (!row || x < this.left) return null;
      const bars = row.lane.bars, from = this.timeAt(x - 2), to = this.timeAt(x + 2), at = this.timeAt(x);
      let best = -1;
      for (let i = firstAfter(bars, from); i < bars.count && bars.begin[i] <= to; i++) {
        if (bars.begin[i] <= at && at < bars.end[i] && bars.length[i] > to - from) return { lane: row.lane, index: i };
        if (best < 0 || bars.length[i] > bars.length[best]) best = i;
      }
      return best < 0 ? null : { lane: row.lane, index: best };
    }
    point(x, y) {
      const flag = this.flagged.find((flag) => Math.hypot(flag.x - x, flag.y - y) < 11);
      const found = flag ? null : this.hit(x, y);
      this.tip.hidden = !flag && !found;
      if (this.tip.hidden) return;
      this.tip.textContent = flag ? `${flag.text}\nafter ${time(flag.at_ns)}` : this.lines(found).join("\n");
      const left = Math.min(Math.max(x + 14, 0), Math.max(this.width - this.tip.offsetWidth - 2, 0));
      const below = y + 18 + this.tip.offsetHeight < this.height;
      this.tip.style.left = left + "px";
      this.tip.style.top = (below ? y + 18 : Math.max(y - this.tip.offsetHeight - 10, 0)) + "px";
    }
    lines({ lane, index }) {
      const bars = lane.bars, kind = this.data.kinds[bars.kind[index]];
      const count = bars.together?.[index] ?? 1;
      const lines = count > 1
        ? [`${count} short spans, the longest: ${kind.name}`]
        : [`${lane.name}: ${kind.name} – ${this.data.subjects[bars.subject[index]] ?? ""}`];
      lines.push(`from ${time(bars.begin[index])} for ${time(bars.length[index])}`);
      if (bars.waited?.[index]) lines.push(`waited ${time(bars.waited[index])} at its gate`);
      if (bars.bytes?.[index]) lines.push(`${bytes(bars.bytes[index])} of device memory`);
      if (bars.inline?.[index]) lines.push("uploaded inline");
      if (bars.ending?.[index]) lines.push(ENDINGS[bars.ending[index]]);
      return lines;
    }

    // Drawing.
    colours() {
      const style = getComputedStyle(document.documentElement);
      const colour = (name) => style.getPropertyValue("--" + name).trim();
      return { ink: colour("ink"), quiet: colour("quiet"), line: colour("line"), panel: colour("panel"), page: colour("page"), accent: colour("accent") };
    }
    // A fill with its pattern, so that kinds differ without their colours.
    paint(context, look) {
      const { fill, pattern } = LOOKS[look] ?? LOOKS.lock;
      if (pattern === "none") return fill;
      const tile = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
      const pen = tile.getContext("2d");
      pen.fillStyle = fill;
      pen.fillRect(0, 0, 8, 8);
      pen.strokeStyle = pen.fillStyle = pattern === "outline" ? this.colour.quiet : "rgb(255 255 255 / .55)";
      pen.lineWidth = 1.5;
      const line = (...points) => {
        pen.beginPath();
        for (let i = 0; i < points.length; i += 4) {
          pen.moveTo(points[i], points[i + 1]);
          pen.lineTo(points[i + 2], points[i + 3]);
        }
        pen.stroke();
      };
      if (pattern === "diagonal") line(-2, 10, 10, -2, -2, 2, 2, -2, 6, 10, 10, 6);
      if (pattern === "outline") { pen.lineWidth = 1; line(-2, -2, 10, 10, 6, -2, 10, 2, -2, 6, 2, 10); }
      if (pattern === "vertical") line(2, 0, 2, 8);
      if (pattern === "horizontal") line(0, 2, 8, 2);
      if (pattern === "dots") { pen.fillRect(1, 1, 2, 2); pen.fillRect(5, 5, 2, 2); }
      return context.createPattern(tile, "repeat");
    }
    // Where everything goes, from top to bottom.
    layout() {
      const phone = this.width < PHONE;
      this.left = phone ? 0 : 132;
      this.rows = [];
      let top = AXIS;
      for (const group of this.groups) {
        this.rows.push({ group, top });
        top += HEADING;
        if (group.flags.length) {
          this.rows.push({ flags: group.flags, top });
          top += FLAGS;
        }
        for (const lane of group.lanes) {
          if (phone) top += CAPTION;
          this.rows.push({ lane, top });
          top += BAR + GAP;
        }
        top += 8;
      }
      this.height = top;
    }
    draw() {
      this.width = this.plot.clientWidth;
      if (!this.width) return;
      this.layout();
      const scale = devicePixelRatio || 1;
      this.canvas.width = Math.round(this.width * scale);
      this.canvas.height = Math.round(this.height * scale);
      this.canvas.style.height = this.height + "px";
      const context = this.canvas.getContext("2d");
      context.scale(scale, scale);
      this.colour = this.colours();
      this.paints = this.data.kinds.map((kind) => this.paint(context, kind.look));
      for (const [swatch, look] of this.swatches) this.swatch(swatch, look);
      this.axis(context);
      this.flagged = [];
      for (const row of this.rows) {
        if (row.lane) this.lane(context, row);
        else if (row.flags) this.flags(context, row);
        else this.heading(context, row);
      }
    }
    swatch(canvas, look) {
      const context = canvas.getContext("2d");
      context.setTransform(2, 0, 0, 2, 0, 0);
      context.clearRect(0, 0, 22, 14);
      context.fillStyle = this.paint(context, look);
      const thin = look === "wait";
      context.fillRect(0, thin ? 4 : 0, 22, thin ? 6 : 14);
      if (thin) { context.strokeStyle = this.colour.quiet; context.strokeRect(0.5, 4.5, 21, 5); }
    }
    axis(context) {
      const span = this.to - this.from, rough = span / Math.max(this.wide() / 110, 2);
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((times) => times * power).find((step) => step >= rough);
      context.font = "12px system-ui, sans-serif";
      context.textBaseline = "middle";
      for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
        const x = Math.round(this.x(at)) + 0.5;
        context.strokeStyle = this.colour.line;
        context.beginPath();
        context.moveTo(x, AXIS - 6);
        context.lineTo(x, this.height);
        context.stroke();
        context.fillStyle = this.colour.quiet;
        const text = this.tick(at, step), wide = context.measureText(text).width;
        if (x + wide / 2 <= this.width) {
          context.textAlign = x - wide / 2 < this.left ? "left" : "center";
          context.fillText(text, x, AXIS / 2 - 2);
        }
      }
    }
    // All ticks in the unit and with the digits of their step.
    tick(at, step) {
      if (at === 0) return "0";
      const [unit, name] = this.to >= 1e9 ? [1e9, "s"] : this.to >= 1e6 ? [1e6, "ms"] : [1e3, "µs"];
      return (at / unit).toFixed(Math.max(0, -Math.floor(Math.log10(step / unit)))) + " " + name;
    }
    heading(context, { group, top }) {
      context.textAlign = "left";
      context.fillStyle = this.colour.ink;
      context.font = "600 13px system-ui, sans-serif";
      const y = top + HEADING / 2 + 1;
      context.fillText(group.name, 0, y);
      const wide = context.measureText(group.name).width;
      context.fillStyle = this.colour.quiet;
      context.font = "12px system-ui, sans-serif";
      if (group.note) context.fillText(group.note, wide + 10, y);
    }
    flags(context, row) {
      const y = row.top + FLAGS / 2 - 2;
      let last = -Infinity;
      for (const flag of row.flags) {
        if (flag.at_ns < this.from || flag.at_ns > this.to) continue;
        // Flags of about the same moment stand side by side.
        const x = last = Math.max(Math.max(this.x(flag.at_ns), 8), last + 17);
        context.fillStyle = this.colour.ink;
        context.beginPath();
        context.arc(x, y, 8, 0, 7);
        context.fill();
        context.fillStyle = this.colour.panel;
        context.font = "700 11px system-ui, sans-serif";
        context.textAlign = "center";
        context.fillText(flag.letter, x, y + 0.5);
        this.flagged.push({ ...flag, x, y });
      }
    }
    lane(context, row) {
      const { lane, top } = row;
      context.font = "12px system-ui, sans-serif";
      context.textAlign = "left";
      context.fillStyle = this.colour.quiet;
      if (this.left) context.fillText(lane.name, 10, top + BAR / 2, this.left - 18);
      else context.fillText(lane.name, 0, top - CAPTION / 2 + 1);
      context.fillStyle = this.colour.page;
      context.fillRect(this.left, top, this.wide(), BAR);
      context.save();
      context.beginPath();
      context.rect(this.left, top - 2, this.wide(), BAR + 4);
      context.clip();
      this.bars(context, lane.bars, top);
      if (this.chosen?.lane === lane) {
        const { begin, end } = lane.bars, x = this.x(begin[this.chosen.index]);
        context.strokeStyle = this.colour.ink;
        context.lineWidth = 2;
        context.strokeRect(x - 1, top - 1, Math.max(this.x(end[this.chosen.index]) - x, 1) + 2, BAR + 2);
        context.lineWidth = 1;
      }
      context.restore();
    }
    bars(context, bars, top) {
      let column = -1, covered = [];
      const flush = () => {
        if (column < 0) return;
        let foot = top + BAR;
        covered.forEach((part, kind) => {
          const { fill, pattern } = LOOKS[this.data.kinds[kind].look];
          const high = Math.min(Math.max(part * BAR, 1), foot - top);
          context.fillStyle = pattern === "outline" ? this.colour.line : fill;
          context.fillRect(column, foot - high, 1, high);
          foot -= high;
        });
        [column, covered] = [-1, []];
      };
      for (let i = firstAfter(bars, this.from); i < bars.count && bars.begin[i] <= this.to; i++) {
        const x = this.x(bars.begin[i]), wide = this.x(bars.end[i]) - x;
        if (wide >= NARROW) {
          flush();
          this.bar(context, bars, i, x, top, wide);
          continue;
        }
        if (Math.floor(x) !== column) {
          flush();
          column = Math.floor(x);
        }
        covered[bars.kind[i]] = (covered[bars.kind[i]] ?? 0) + wide;
      }
      flush();
    }
    bar(context, bars, index, x, top, wide) {
      const kind = this.data.kinds[bars.kind[index]], thin = kind.look === "wait";
      const [y, high] = thin ? [top + 7, 6] : [top, BAR];
      context.save();
      context.translate(x, y);
      context.fillStyle = this.paints[bars.kind[index]];
      context.fillRect(0, 0, wide, high);
      context.restore();
      context.strokeStyle = thin ? this.colour.quiet : this.colour.panel;
      if (wide > 3) context.strokeRect(x + 0.5, y + 0.5, wide - 1, high - 1);
      const ending = bars.ending?.[index];
      const seen = Math.min(x + wide, this.width) - Math.max(x, this.left);
      if (ending === 1 || ending === 2) this.cross(context, x + wide, top);
      if (thin || seen < 30) return;
      // The name of a lock stands before its lane.
      const long = time(bars.length[index]);
      const names = kind.look === "lock" ? [long] : [`${kind.name} ${long}`, kind.name];
      const text = names.find((text) => context.measureText(text).width + 12 <= seen);
      if (!text) return;
      const wideText = context.measureText(text).width, left = Math.max(x, this.left) + 4;
      context.fillStyle = LOOKS[kind.look]?.fill ?? "#000";
      context.fillRect(left, top + 2, wideText + 4, BAR - 4);
      context.fillStyle = kind.look === "compute" || kind.look === "lock" ? "#fff" : "#000";
      context.fillText(text, left + 2, top + BAR / 2 + 0.5);
    }
    cross(context, x, top) {
      context.strokeStyle = this.colour.ink;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(x - 5, top + 6); context.lineTo(x + 3, top + 14);
      context.moveTo(x + 3, top + 6); context.lineTo(x - 5, top + 14);
      context.stroke();
      context.lineWidth = 1;
    }
  }

  for (const root of document.querySelectorAll(".chart[data-chart]")) {
    new Chart(root, JSON.parse(document.getElementById(root.dataset.chart).textContent));
  }
})();
