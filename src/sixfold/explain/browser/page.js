// What every explain page does: the header, the tabs, the tools, and the view that the URL asks for.
import { button } from "./controls.js";
import { element, within } from "./dom.js";
import { save } from "./save_picture.js";
import { State } from "./state.js";
import { THEMES, tabs, themeButton } from "./theme_and_tabs.js";

export function pageData() {
  return JSON.parse(document.getElementById("data").textContent);
}

// `page` has
// - data, as Python wrote it; title; and header, the elements that show what the page explains;
// - views, {name: [text of its tab, class]}, of which the first is shown first;
// - sides, {stack: [tokens of the queries, tokens of the keys]};
// - start, the stack, layer and head shown first, and more of the state; tidy, which replaces impossible values of it;
// - numTokens, how many tokens have a probability; unit, the words for what heads are measured on; figures, cards about its heads.
export function showPage(page) {
  const state = new State(defaultsOf(page), (values) => tidied(page, values));
  const theme = themeButton(state);
  const names = Object.fromEntries(Object.entries(page.views).map(([view, [name]]) => [view, name]));
  const bar = tabs("Views", names, state);
  const panel = element("section", { id: "view", role: "tabpanel", tabindex: -1 });
  const made = {};
  const view = () => (made[state.values.view] ??= new page.views[state.values.view][1](page, state));
  document.body.append(header(page, theme),
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

function defaultsOf({ views, start }) {
  return {
    view: Object.keys(views)[0], picture: "arcs", words: 0, from: -1, to: -1, choice: 0, position: 0, dimension: 0,
    theme: "auto", ...start,
  };
}

// Replaces values that cannot be shown: the URL may contain anything.
function tidied({ data, views, sides, start, numTokens, tidy }, values) {
  const known = (value, options) => (options.includes(value) ? value : options[0]);
  const stack = known(values.stack, [start.stack, ...Object.keys(sides)]);
  const layers = data.attention.stacks[stack];
  const layer = within(values.layer, -1, layers.length - 1);
  return {
    ...values, ...tidy?.(values), stack, layer, head: layer < 0 ? -1 : within(values.head, -1, layers[0].heads - 1),
    view: known(values.view, Object.keys(views)), picture: known(values.picture, ["arcs", "map"]),
    theme: known(values.theme, THEMES), choice: within(values.choice, 0, numTokens - 1),
    position: within(values.position, 0, data.positions.length - 1),
    dimension: within(values.dimension, 0, data.positions.width - 1),
  };
}

function facts({ name, layers, heads, key_value_heads: shared, d_model: width, parameters }) {
  const size = parameters >= 1e6 ? `${(parameters / 1e6).toFixed(1)} million` : parameters.toLocaleString("en");
  const ofKeys = shared < heads ? ` (${shared} of keys and values)` : "";
  return [name, `${layers.join(" + ")} layers`, `${heads} heads${ofKeys}`, `d_model ${width}`, `${size} parameters`]
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

function header({ data, title, header: about }, theme) {
  return element("header", {},
    element("div", { class: "top" }, element("b", { class: "brand" }, "Sixfold"),
      element("span", { class: "soft" }, facts(data.model)), theme.button),
    element("h1", { class: "unseen" }, title), about,
    data.notes.map((text) => element("p", { class: "note" }, text)));
}
