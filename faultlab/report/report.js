"use strict";
// Draw the charts of the page from its JSON. All charts share one cursor.
(() => {
  const holder = document.getElementById("data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colours = ["#1a9a6c", "#d9602b", "#3d85d1", "#a05cc0", "#b8860b", "#d14d8b", "#5c7080", "#2aa5a5"];
  const dashes = [[], [6, 3], [2, 3]];
  const said = document.getElementById("said");
  const whole = document.getElementById("whole");
  const first = data.seconds[0];
  const main = data.bands.filter((band) => band.kind !== "tried");
  const endOfMain = main.length ? main[main.length - 1].end : data.seconds[data.seconds.length - 1];
  const range = () => [first, whole && whole.checked ? data.seconds[data.seconds.length - 1] : endOfMain];
  const short = (value) => value == null ? "–" : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(3));
  const brief = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const tick = (value) => Math.abs(value) >= 1e4 ? brief.format(value) : short(value);
  const charts = [];
  // A value without neighbours cannot be a line, so it is drawn as a point.
  const alone = (u, series) => u.data[series].flatMap((v, i, all) => v != null && all[i - 1] == null && all[i + 1] == null ? [i] : []);

  const story = {
    hooks: {
      drawClear: (u) => {
        const { ctx, bbox } = u;
        ctx.save();
        ctx.beginPath();
        ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
        ctx.clip();
        for (const band of data.bands) {
          const left = u.valToPos(band.begin, "x", true), right = u.valToPos(band.end, "x", true);
          ctx.fillStyle = css("--band-" + band.kind);
          ctx.fillRect(left, bbox.top, right - left, bbox.height);
        }
        ctx.restore();
      },
      draw: (u) => {
        const { ctx, bbox } = u, ratio = devicePixelRatio || 1;
        ctx.save();
        ctx.font = `${11 * ratio}px system-ui, sans-serif`;
        ctx.fillStyle = ctx.strokeStyle = css("--soft");
        ctx.textAlign = "left";
        let row = 0;
        for (const mark of data.marks) {
          const x = u.valToPos(mark.t, "x", true);
          if (x < bbox.left || x > bbox.left + bbox.width) continue;
          ctx.setLineDash([3 * ratio, 3 * ratio]);
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
          const width = ctx.measureText(mark.text).width;
          const left = Math.min(x + 3 * ratio, bbox.left + bbox.width - width);
          ctx.fillText(mark.text, left, bbox.top - (4 + 13 * (row % 3)) * ratio);
          row += 1;
        }
        ctx.restore();
      },
    },
  };

  const tell = (chart, u) => {
    const at = u.cursor.idx;
    if (at == null || !said) return;
    const names = Object.keys(chart.lines);
    said.textContent = `${chart.title}, second ${u.data[0][at]}: ` +
      names.map((name) => `${name} ${short(chart.lines[name][at])}${chart.unit}`).join(", ");
  };

  const make = (box) => {
    const chart = data.charts[Number(box.dataset.chart)];
    const names = Object.keys(chart.lines);
    const axis = { stroke: () => css("--soft"), grid: { stroke: () => css("--line"), width: 0.5 }, ticks: { stroke: () => css("--line") }, font: "12px system-ui, sans-serif" };
    const u = new uPlot({
      width: box.clientWidth || 600, height: 230, padding: [44, 24, 0, 0],
      cursor: { sync: { key: "run" }, drag: { x: true, y: false } },
      legend: { live: true },
      scales: { x: { time: false, range: () => range() }, y: { range: (_u, _low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, values: (_u, ticks) => ticks.map((t) => t + " s") }, { ...axis, size: 62, values: (_u, ticks) => ticks.map(tick) }],
      series: [{ label: "second", value: (_u, v) => v == null ? "–" : v + " s" }, ...names.map((name, i) => ({
        label: name, stroke: colours[i % colours.length], width: 1.8, dash: dashes[Math.floor(i / colours.length) % dashes.length],
        points: { size: 5, filter: alone }, spanGaps: false, value: (_u, v) => v == null ? "–" : `${short(v)} ${chart.unit}`,
      }))],
      plugins: [story],
    }, [data.seconds, ...names.map((name) => chart.lines[name])], box);
    box.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const last = data.seconds.length - 1;
      const at = Math.max(0, Math.min(last, (u.cursor.idx ?? (step > 0 ? -1 : last + 1)) + step));
      u.setCursor({ left: u.valToPos(data.seconds[at], "x"), top: 10 });
      tell(chart, u);
    });
    return { u, box };
  };

  for (const box of document.querySelectorAll("[data-chart]")) charts.push(make(box));
  const fit = (width) => charts.forEach(({ u, box }) => u.setSize({ width: width || box.clientWidth, height: 230 }));
  const redraw = () => charts.forEach(({ u }) => u.redraw(true));
  let waiting;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => fit(), 100); });
  addEventListener("beforeprint", () => fit(680));
  addEventListener("afterprint", () => fit());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  if (whole) whole.addEventListener("change", () => charts.forEach(({ u }) => { const [min, max] = range(); u.setScale("x", { min, max }); }));
  document.documentElement.dataset.drawn = String(charts.length);
})();
