// The API documentation, rendered from /openapi.json.

const main = document.getElementById("routes");

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

function typeOf(field) {
  if (field.const !== undefined) return JSON.stringify(field.const);
  if (field.enum) return field.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (field.anyOf) return field.anyOf.map(typeOf).join(" or ");
  if (field.type === "array") return `list of ${typeOf(field.items)}`;
  return field.type;
}

function fieldRow(name, field, isRequired) {
  const bounds = field.maximum === undefined ? "" : `, ${field.minimum ?? ""} to ${field.maximum}`;
  const fallback = isRequired ? "required" : `default ${JSON.stringify(field.default)}`;
  return element(
    "tr", {},
    element("td", { textContent: name }),
    element("td", { className: "soft", textContent: `${typeOf(field)}${bounds}; ${fallback}` }),
    element("td", { textContent: field.description ?? "" }),
  );
}

function exampleOf(path, method, properties) {
  const values = {
    q: "A man is sleeping.", text: "A man is sleeping.", source: "auto", target: "de", target_lang: "DE",
  };
  const fields = Object.keys(properties).filter((name) => name in values);
  const url = `${location.origin}${path}`;
  if (method === "get") return `curl ${url}`;
  return [`curl ${url}`, ...fields.map((name) => `-d ${name}="${values[name]}"`)].join(" \\\n  ");
}

function routeElement(path, method, route) {
  const schema = Object.values(route.requestBody?.content ?? {})[0]?.schema ?? { properties: {} };
  const rows = Object.entries(schema.properties).map(([name, field]) =>
    fieldRow(name, field, (schema.required ?? []).includes(name)),
  );
  const title = element("div", {});
  title.append(
    element("span", { className: "method", textContent: method.toUpperCase() }),
    element("code", { textContent: path }),
  );
  const article = element("article", { className: "route" }, title, element("p", { textContent: route.description }));
  if (rows.length) article.append(element("table", {}, element("tbody", {}, ...rows)));
  article.append(element("pre", { textContent: exampleOf(path, method, schema.properties) }));
  return article;
}

const description = await (await fetch("/openapi.json")).json();
const sections = new Map();
for (const [path, methods] of Object.entries(description.paths)) {
  const [method, route] = Object.entries(methods)[0];
  const name = route.tags?.[0] ?? "Other";
  if (!sections.has(name)) sections.set(name, element("section", {}, element("h2", { textContent: name })));
  sections.get(name).append(routeElement(path, method, route));
}
main.append(...sections.values());
