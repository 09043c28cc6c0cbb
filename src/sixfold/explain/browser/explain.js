// The explain page of one translation.
import { AttentionView } from "./attention.js";
import { DecodingView } from "./decoding.js";
import { element, within } from "./dom.js";
import { THEMES, tabs, themeButton } from "./theme_and_tabs.js";
import { HeadsView } from "./heads.js";
import { button } from "./controls.js";
import { PositionsView } from "./positions.js";
import { STACKS } from "./head_roles.js";
import { save } from "./save_picture.js";
import { sentencePair } from "./sentence_pair.js";
import { State } from "./state.js";

const NAMES = { attention: "Attention", decoding: "Decoding", heads: "Heads", positions: "Positions" };
const VIEWS = { attention: AttentionView, decoding: DecodingView, heads: HeadsView, positions: PositionsView };

function defaultsFor(data) {
  return {
    view: "attention", stack: "cross", ...initialHead(data.head_roles), picture: "arcs", words: 0, from: -1, to: -1,
    choice: 0, step: 0, node: -1, position: 0, dimension: 0, theme: "auto",
  };
}

// The cross-attention head that follows the word alignment most closely, which is the easiest to read.
function initialHead(headRoles) {
  const heads = headRoles.cross.flatMap((row, layer) => row.map(({ weights }, head) => ({ layer, head, weights })));
  const aligned = ({ weights }) => weights.aligned;
  const { layer, head } = heads.reduce((best, each) => (aligned(each) > aligned(best) ? each : best));
  return { layer, head };
}

// Replaces values that cannot be shown: the URL may contain anything.
function tidied(data, values) {
  const known = (value, options) => (options.includes(value) ? value : options[0]);
  const stack = known(values.stack, ["cross", ...Object.keys(STACKS)]);
  const layers = data.attention[stack];
  const layer = within(values.layer, -1, layers.length - 1);
  return {
    ...values, stack, layer, head: layer < 0 ? -1 : within(values.head, -1, layers[0].heads - 1),
    view: known(values.view, Object.keys(NAMES)), picture: known(values.picture, ["arcs", "map"]),
    theme: known(values.theme, THEMES), choice: within(values.choice, 0, data.choices.length - 1),
    step: Math.max(0, values.step), node: Math.max(-1, values.node),
    position: within(values.position, 0, data.positions.length - 1),
    dimension: within(values.dimension, 0, data.positions.d_model - 1),
  };
}

function facts({ name, encoder_layers: encoder, decoder_layers: decoder, heads, d_model: width, parameters }) {
  const size = parameters >= 1e6 ? `${(parameters / 1e6).toFixed(1)} million` : parameters.toLocaleString("en");
  return [name, `${encoder} + ${decoder} layers`, `${heads} heads`, `d_model ${width}`, `${size} parameters`]
    .filter(Boolean).join(" · ");
}

// Buttons that save the picture or copy the link, with a status message.
function tools(picture) {
  const status = element("span", { class: "tool-status", role: "status" });
  const tell = (text) => {
    status.textContent = text;
    setTimeout(() => (status.textContent = ""), 3000);
  };
  const saved = (kind) => async () => {
    if (!picture()) return;
    await save(picture(), kind);
    tell(`Saved as ${kind.toUpperCase()}`);
  };
  const copied = async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      tell("Link copied");
    } catch {
      tell("Copy the link from the address bar");
    }
  };
  const tool = (text, label, act) => button(text, label, act, { class: "plain" });
  return element("div", { class: "tools" }, status, tool("SVG", "Save the picture as SVG", saved("svg")),
    tool("PNG", "Save the picture as PNG", saved("png")), tool("Link", "Copy a link to this view", copied));
}

function header(data, theme) {
  return element("header", {},
    element("div", { class: "top" }, element("b", { class: "brand" }, "Sixfold"),
      element("span", { class: "soft" }, facts(data.model)), theme.button),
    element("h1", { class: "unseen" }, "Explanation of a translation"), sentencePair(data),
    data.notes.map((text) => element("p", { class: "note" }, text)));
}

function start(data) {
  const state = new State(defaultsFor(data), (values) => tidied(data, values));
  const theme = themeButton(state);
  const bar = tabs("Views", NAMES, state);
  const panel = element("section", { id: "view", role: "tabpanel", tabindex: -1 });
  const made = {};
  const view = () => (made[state.values.view] ??= new VIEWS[state.values.view](data, state));
  document.body.append(header(data, theme),
    element("nav", { "aria-label": "Views and tools" }, bar.list, tools(() => view().picture())),
    element("main", {}, panel));
  const update = (changed) => {
    if (changed.has("theme")) theme.update();
    if (changed.has("view")) {
      panel.replaceChildren(view().root);
      panel.setAttribute("aria-labelledby", `tab-${state.values.view}`);
      bar.update();
    }
    view().update(changed);
  };
  state.onChange(update);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => update(new Set(["theme"])));
  update(new Set(["view"]));
}

start(JSON.parse(document.getElementById("data").textContent));
