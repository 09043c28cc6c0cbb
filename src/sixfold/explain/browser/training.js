// The page of a training run, finished or in progress.
import { lineChart } from "./chart.js";
import { element, within } from "./dom.js";
import { THEMES, themeButton } from "./theme_and_tabs.js";
import { muted } from "./controls.js";
import { visible } from "./token_text.js";
import { State } from "./state.js";

const POLL_INTERVAL = 3000; // milliseconds
const CHART_HEIGHT = 220;
const GAP = 40; // between two charts
const ENDED = "Training has ended or was stopped. This is its last state.";
const NOT_BEGUN = "No training step yet: the data is being prepared.";

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function shortNumber(value) {
  const isPlain = value === 0 || (Math.abs(value) >= 0.01 && Math.abs(value) < 1e5);
  return isPlain ? String(Number(value.toPrecision(4))) : value.toExponential(1);
}

function scoreName(data) {
  return data.validations.at(-1)?.score_name ?? "Score";
}

function titleCase(name) {
  return name[0].toUpperCase() + name.slice(1);
}

function facts(data) {
  const best = data.validations.findLast((each) => each.is_best);
  const speeds = data.points.map((point) => point.tokens_per_second).sort((one, other) => one - other);
  const shown = {
    steps: data.num_steps.toLocaleString("en"),
    epoch: data.epoch,
    "training time": duration(data.seconds),
    [`best ${scoreName(data)} on validation data`]: best ? best.score.toFixed(best.decimals) : "–",
    "target tokens per second (median)": Math.round(speeds[speeds.length >> 1]).toLocaleString("en"),
  };
  return element("div", { class: "facts" }, Object.entries(shown).map(([name, value]) =>
    element("div", {}, element("b", {}, value), element("span", {}, name))));
}

function charts(data, width) {
  const over = (rows, name) => rows.map((row) => [row.step, row[name]]);
  const chart = (title, about, series, options = {}) => {
    const drawn = series.filter((one) => one.points.length);
    const label = `${title} over ${data.num_steps} training steps`;
    return drawn.length ? element("section", {}, element("h3", {}, title), element("p", {}, about),
      lineChart({ series: drawn, width, height: CHART_HEIGHT, label, format: shortNumber, ...options })) : null;
  };
  return element("div", { class: "charts" },
    chart("Loss", "per token. Line: training; dots: validation, without label smoothing", [
      { points: over(data.points, "loss"), colour: "soft", faint: true },
      { points: over(data.validations, "loss"), colour: "accent", dots: true },
    ]),
    chart(titleCase(scoreName(data)), "on validation data",
      [{ points: over(data.validations, "score"), colour: "accent", dots: true }], { floor: 0 }),
    chart("Learning rate", "at each step",
      [{ points: over(data.points, "learning_rate"), colour: "other" }], { floor: 0 }),
    chart("Gradient norm", "before clipping",
      [{ points: over(data.points, "grad_norm"), colour: "soft", faint: true }], { floor: 0 }));
}

// An answer, with the words highlighted that also occur in the expected one.
function highlightMatches(text, expected) {
  const known = new Set(expected.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
  const isHit = (part, place) => place % 2 && known.has(part.toLowerCase());
  return text.split(/([\p{L}\p{N}]+)/u).map((part, place) =>
    (isHit(part, place) ? element("span", { class: "hit" }, visible(part)) : visible(part)));
}

function samples({ validations }) {
  const last = validations.at(-1);
  if (!last) return null;
  const row = (attributes, first, second, content) => element("li", attributes,
    element("span", { class: "soft small number" }, first), element("span", { class: "number small" }, second),
    element("bdi", {}, content));
  const score = ({ is_best: isBest, score: value, decimals }) => element("span",
    { class: isBest ? "best" : null, title: isBest ? "best so far" : null }, value.toFixed(decimals));
  return element("section", { class: "samples-part" }, element("h2", {}, "Sample output"),
    muted("The model's output for one validation example, at each validation. " +
      "Words that occur in the expected output are coloured."),
    element("ol", { class: "samples" },
      row({}, "input", "", visible(last.given)), row({ class: "given" }, "expected", "", visible(last.expected)),
      [...validations].reverse().map((each) =>
        row({}, each.step.toLocaleString("en"), score(each), highlightMatches(each.answer, each.expected)))));
}

// Polls the server for updates.
function follow(data, live, show) {
  let now = data;
  live.textContent = "live";
  setInterval(async () => {
    try {
      const update = await (await fetch("training.json")).json();
      live.textContent = "live";
      const isNew = update.num_steps !== now.num_steps || update.validations.length !== now.validations.length;
      now = update;
      if (isNew) show(now);
    } catch {
      live.textContent = ENDED;
    }
  }, POLL_INTERVAL);
}

function start(given) {
  let data = given;
  const state = new State({ theme: "auto" }, ({ theme }) => ({ theme: THEMES.includes(theme) ? theme : "auto" }));
  const theme = themeButton(state);
  const live = element("span", { class: "soft", role: "status" });
  const main = element("main");
  const languages = [data.source_language, data.target_language].filter(Boolean).join(" → ");
  document.body.append(element("header", {},
    element("div", { class: "top" }, element("b", { class: "brand" }, "Sixfold"), live, theme.button),
    element("h1", { class: "title" }, `Training of ${data.name}${languages ? `, ${languages}` : ""}`)), main);
  const show = () => {
    const columns = main.clientWidth > 960 ? 2 : 1;
    const width = within(Math.floor((main.clientWidth - GAP * (columns - 1)) / columns), 280, 560);
    const parts = data.num_steps ? [facts(data), charts(data, width), samples(data)] : [muted(NOT_BEGUN)];
    main.replaceChildren(...parts.filter(Boolean));
  };
  const update = () => {
    theme.update();
    show();
  };
  state.onChange(update);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
  addEventListener("resize", show);
  show();
  if (data.is_live) follow(data, live, (update) => { data = update; show(); });
}

start(JSON.parse(document.getElementById("data").textContent));
