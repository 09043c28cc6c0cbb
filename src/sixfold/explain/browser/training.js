// The page that shows how a training goes, or went.
import { lineChart } from "./chart.js";
import { element, within } from "./dom.js";
import { THEMES, themeButton } from "./theme_and_tabs.js";
import { soft } from "./controls.js";
import { visible } from "./token_text.js";
import { State } from "./state.js";

const ASK_EVERY = 3000; // milliseconds
const CHART_HEIGHT = 220;
const GAP = 40; // between two charts
const ENDED = "The training has ended or was stopped; this is its last state.";
const NOT_BEGUN = "No step was taken yet: the text is being read and encoded.";

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

function facts(data) {
  const best = data.validations.findLast((each) => each.is_best);
  const speeds = data.points.map((point) => point.tokens_per_second).sort((one, other) => one - other);
  const shown = {
    steps: data.num_steps.toLocaleString("en"),
    epoch: data.epoch,
    "training time": duration(data.seconds),
    [`${scoreName(data)} of the model kept, on held-out examples`]: best ? best.score.toFixed(1) : "–",
    "target tokens a second (median)": Math.round(speeds[speeds.length >> 1]).toLocaleString("en"),
  };
  return element("div", { class: "facts" }, Object.entries(shown).map(([name, value]) =>
    element("div", {}, element("b", {}, value), element("span", {}, name))));
}

function charts(data, width) {
  const over = (rows, name) => rows.map((row) => [row.step, row[name]]);
  const chart = (title, about, series, options = {}) => {
    const drawn = series.filter((one) => one.points.length);
    const label = `${title} over ${data.num_steps} steps`;
    return drawn.length ? element("section", {}, element("h3", {}, title), element("p", {}, about),
      lineChart({ series: drawn, width, height: CHART_HEIGHT, label, format: shortNumber, ...options })) : null;
  };
  return element("div", { class: "charts" },
    chart("Loss", "of a token; dots are held-out sentences, without label smoothing", [
      { points: over(data.points, "loss"), colour: "soft", faint: true },
      { points: over(data.validations, "loss"), colour: "accent", dots: true },
    ]),
    chart(scoreName(data), "of held-out examples",
      [{ points: over(data.validations, "score"), colour: "accent", dots: true }], { floor: 0 }),
    chart("Learning rate", "as the schedule set it",
      [{ points: over(data.points, "learning_rate"), colour: "other" }], { floor: 0 }),
    chart("Gradient norm", "before clipping",
      [{ points: over(data.points, "grad_norm"), colour: "soft", faint: true }], { floor: 0 }));
}

// Words of an answer that the expected one has as well are marked.
function marked(text, expected) {
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
  const score = ({ is_best: isBest, score: value }) => element("span",
    { class: isBest ? "best" : null, title: isBest ? "the best so far" : null }, value.toFixed(1));
  return element("section", { class: "samples-part" }, element("h2", {}, "One sentence, as the model learned it"),
    soft("A held-out example, answered at each validation. Words that the expected answer has are coloured."),
    element("ol", { class: "samples" },
      row({}, "given", "", visible(last.given)), row({ class: "given" }, "expected", "", visible(last.expected)),
      [...validations].reverse().map((each) =>
        row({}, each.step.toLocaleString("en"), score(each), marked(each.answer, each.expected)))));
}

// Ask the server for news now and then.
function follow(data, live, show) {
  let now = data;
  live.textContent = "live";
  setInterval(async () => {
    try {
      const news = await (await fetch("training.json")).json();
      live.textContent = "live";
      const isNew = news.num_steps !== now.num_steps || news.validations.length !== now.validations.length;
      now = news;
      if (isNew) show(now);
    } catch {
      live.textContent = ENDED;
    }
  }, ASK_EVERY);
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
    element("h1", { class: "title" }, `Training ${data.name}${languages ? `, ${languages}` : ""}`)), main);
  const show = () => {
    const columns = main.clientWidth > 960 ? 2 : 1;
    const width = within(Math.floor((main.clientWidth - GAP * (columns - 1)) / columns), 280, 560);
    const parts = data.num_steps ? [facts(data), charts(data, width), samples(data)] : [soft(NOT_BEGUN)];
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
  if (data.is_live) follow(data, live, (news) => { data = news; show(); });
}

start(JSON.parse(document.getElementById("data").textContent));
