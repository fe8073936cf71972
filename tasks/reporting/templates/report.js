(function () {
  const data = JSON.parse(document.getElementById("texts-data").textContent);
  const form = document.getElementById("browse"), list = document.getElementById("rows"), state = document.getElementById("found");
  const more = document.getElementById("more"), page = 20, longest = 600;
  const rows = data.rows.map((row) => ({ text: row[0], label: row[1], model: row[2], iteration: row[3], lower: row[0].toLowerCase() }));
  let shown = page;
  const sorts = {
    order: (a, b) => a.iteration - b.iteration,
    newest: (a, b) => b.iteration - a.iteration,
    longest: (a, b) => b.text.length - a.text.length,
    shortest: (a, b) => a.text.length - b.text.length,
  };
  function element(name, className, text) {
    const node = document.createElement(name);
    node.className = className;
    node.textContent = text;
    return node;
  }
  // bdi: a text of a language that is written from right to left keeps its order of words and marks.
  function shownText(text) {
    if (text.length <= longest) return element("bdi", "text", text);
    const whole = document.createElement("details");
    const start = document.createElement("summary");
    start.append(element("bdi", "text", text.slice(0, longest).replace(/\s+\S*$/, "")), element("span", "", " ... (" + text.length.toLocaleString("en") + " characters)"));
    whole.append(start, element("bdi", "text", text));
    return whole;
  }
  function draw() {
    const wanted = new FormData(form), query = wanted.get("query").trim().toLowerCase();
    const fits = rows.filter((row) =>
      (wanted.get("label") === "" || row.label === +wanted.get("label")) &&
      (wanted.get("model") === "" || row.model === +wanted.get("model")) &&
      (wanted.get("iteration") === "" || row.iteration === +wanted.get("iteration")) &&
      (query === "" || row.lower.includes(query)));
    fits.sort(sorts[wanted.get("sort")]);
    list.replaceChildren(...fits.slice(0, shown).map((row) => {
      const item = document.createElement("li");
      item.append(element("span", "label", data.labels[row.label]), shownText(row.text), " ",
        element("span", "when", data.models[row.model] + ", iteration " + row.iteration));
      return item;
    }));
    state.textContent = fits.length + " of " + rows.length + " texts";
    more.hidden = fits.length <= shown;
  }
  form.addEventListener("input", () => { shown = page; draw(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => { shown += 200; draw(); });
  addEventListener("beforeprint", () => { shown = Math.max(shown, 40); draw(); });
  form.hidden = false;
  draw();
})();
(function () {
  const data = document.getElementById("map-data"), line = document.getElementById("pointed"), longest = 600;
  if (data === null) return;
  JSON.parse(data.textContent).forEach((texts, number) => {
    const dots = document.querySelectorAll("#map-" + number + " use");
    const show = (event) => {
      const text = texts[[...dots].indexOf(event.target)];
      if (text === undefined) return;
      const label = document.createElement("b");
      label.textContent = text[0] + ": ";
      const words = document.createElement("bdi");
      words.textContent = text[1].length > longest ? text[1].slice(0, longest).trimEnd() + " ..." : text[1];
      line.replaceChildren(label, words);
    };
    dots.forEach((dot) => { dot.addEventListener("pointerenter", show); dot.addEventListener("click", show); });
  });
  line.hidden = false;
})();
