/* page.js: the board.

   A view is a function from what the server said to elements.  When something
   changes (an event of /api/live), what the view shows is asked for again, and
   the new elements are laid over the old ones (morph), so that focus, selection
   and scrolling stay.  Ages are written anew every second, without asking.

   Elements are made by h(), whose children are elements or texts.  Nothing is
   ever parsed as HTML: payloads are hostile, and the content policy would not
   have it. */
"use strict";

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

/* ---------------------------------------------------------------------- */
/* Light and dark */

const dark = matchMedia("(prefers-color-scheme: dark)");

function stored(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(name);
    localStorage.setItem(name, value);
  } catch (error) { /* no storage: nothing is remembered */ }
  return null;
}

function dress() {
  const wish = stored("theme") || "system";
  const theme = wish === "system" ? (dark.matches ? "dark" : "light") : wish;
  document.documentElement.dataset.theme = theme;
  return wish;
}
dress();
dark.addEventListener("change", dress);

/* ---------------------------------------------------------------------- */
/* Elements */

function make(space, tag, properties, children) {
  const element = space ? document.createElementNS(space, tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(4)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child.nodeType ? child
      : document.createTextNode(String(child)));
  }
  return element;
}
const h = (tag, properties, ...children) =>
  make(null, tag, properties, children);
const s = (tag, properties, ...children) =>
  make(SVG, tag, properties, children);

/* Make `old` like `next`, and keep what is alike.  Rows are distinguished by
   data-key. */
function morph(old, next) {
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of [...next.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.tagName === "INPUT") {
    if (old.type === "checkbox") old.checked = next.hasAttribute("checked");
    else if (old !== document.activeElement) {
      old.value = next.getAttribute("value") || "";
    }
    return;
  }
  const known = new Map();
  for (const child of old.children) {
    if (child.dataset.key) known.set(child.dataset.key, child);
  }
  let place = old.firstChild;
  for (const child of [...next.childNodes]) {
    const key = child.nodeType === 1 ? child.dataset.key : null;
    const same = key ? known.get(key) : place;
    if (same && same.nodeType === child.nodeType
        && same.nodeName === child.nodeName
        && (key || child.nodeType !== 1 || !same.dataset.key)) {
      if (same !== place) old.insertBefore(same, place);
      else place = place.nextSibling;
      if (same.nodeType === 3) {
        if (same.data !== child.data) same.data = child.data;
      } else morph(same, child);
    } else old.insertBefore(child, place);
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

/* ---------------------------------------------------------------------- */
/* Numbers, times, values */

let offset = 0;                       // the server's clock, less ours
const now = () => Date.now() + offset;
const grouped = new Intl.NumberFormat("en");
const count = (n, more) =>
  n === null || n === undefined ? "–" : grouped.format(n) + (more || "");

const many = (n, name) => count(n) + " " + name + (n === 1 ? "" : "s");

function span(ms) {
  const sign = ms < 0 ? "-" : "";
  let left = Math.abs(ms) / 1000;
  if (left < 1) return sign + Math.round(left * 1000) + " ms";
  if (left < 10) return sign + left.toFixed(1) + " s";
  if (left < 120) return sign + Math.floor(left) + " s";
  left /= 60;
  if (left < 120) return sign + Math.floor(left) + " min";
  left /= 60;
  if (left < 48) return sign + Math.floor(left) + " h";
  return sign + Math.floor(left / 24) + " d";
}

function rough(ms) {                  // ages that change every second
  return ms < 1000 ? "now" : ms < 10000 ? Math.floor(ms / 1000) + " s"
    : span(ms);
}

const since = (at) => at === null || at === undefined ? ""
  : Number(at) > now() ? "in " + rough(Number(at) - now())
  : rough(now() - Number(at));
const until = (at) => at === null || at === undefined ? ""
  : Number(at) > now() ? rough(Number(at) - now())
  : Number(at) > now() - 1000 ? "over"
  : "over for " + rough(now() - Number(at));

function clock(at) {
  if (at === null || at === undefined) return "";
  const date = new Date(Number(at));
  if (isNaN(date)) return String(at);
  const today = new Date(now()).toDateString() === date.toDateString();
  const two = (n) => String(n).padStart(2, "0");
  const time = two(date.getHours()) + ":" + two(date.getMinutes()) + ":"
    + two(date.getSeconds());
  return today ? time : date.getFullYear() + "-" + two(date.getMonth() + 1)
    + "-" + two(date.getDate()) + " " + time;
}

function exactly(at) {
  if (at === null || at === undefined) return null;
  const date = new Date(Number(at));
  return isNaN(date) ? String(at) : date.toISOString();
}

const when = (at, text) => h("time", { title: exactly(at) }, text);

function short(value) {               // a value on a line
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "object") return "x'" + value.blob + "'";
  return String(value).replace(/\s+/g, " ");
}

function whole(value) {               // a value on a sheet
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "object") {
    return value.blob.replace(/(.{2})/g, "$1 ").replace(/(.{48})/g, "$1\n");
  }
  const text = String(value);
  if (/^\s*[[{]/.test(text)) {
    try {
      return JSON.stringify(JSON.parse(text), null, 2);
    } catch (error) { /* no JSON: as it is */ }
  }
  return text;
}

function rate(n) {
  return n === null || n === undefined ? "–"
    : n === 0 ? "0" : n >= 100 ? count(Math.round(n))
    : n.toFixed(n >= 10 ? 1 : 2);
}

/* ---------------------------------------------------------------------- */
/* The server */

async function ask(name, given) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(given || {})) {
    if (value !== null && value !== undefined && value !== "") {
      query.set(key, value);
    }
  }
  const text = query.toString();
  return answer(await fetch("/api/" + name + (text ? "?" + text : "")));
}

async function change(what, ids, edition) {
  return answer(await fetch("/api/change", {
    method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ do: what, ids, edition }) }));
}

async function answer(response) {
  let found;
  try {
    found = await response.json();
  } catch (error) {
    found = { error: "The board did not answer (" + response.status + ")." };
  }
  if (!response.ok) throw new Error(found.error);
  if (found.about) {
    offset = found.about.now_ms - Date.now();
    about = found.about;
  }
  return found;
}

let start = { file: "", write: false, schedules: false };
let about = { dead: 0, counted: { approx: true } };

/* ---------------------------------------------------------------------- */
/* Plots */

function ceiling(most) {              // a round number for the top
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((n) => n * power)
    .find((n) => n >= most);
}

function shape(values, width, height, top) {
  const step = width / Math.max(1, values.length - 1);
  let line = "", area = "", first = null, last = null;
  values.forEach((value, n) => {
    if (value === null) return;
    const x = (n * step).toFixed(1);
    const y = (height - height * Math.min(1, value / top)).toFixed(1);
    line += (first === null ? "M" : "L") + x + " " + y;
    if (first === null) first = x;
    last = x;
  });
  if (first !== null && first === last) line += "h-" + step.toFixed(1);
  if (first !== null) area = line + "L" + last + " " + height + "L" + first
    + " " + height + "Z";
  return [line, area];
}

function spark(values) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const top = Math.max(1, ...known) * 1.05;
  const [line, area] = shape(values, 112, 23, top);
  return s("svg", { class: "spark", viewBox: "0 0 112 24",
    "aria-hidden": "true" },
  s("path", { class: "area", d: area }), s("path", { class: "stroke",
    d: line }));
}

function frame(title, note, top, picture, label) {
  return h("div", { class: "plot" },
    h("div", { class: "top" }, h("b", null, title),
      h("span", { class: "note" }, note)),
    h("div", { class: "field-of" },
      s("svg", { viewBox: "0 0 600 112", preserveAspectRatio: "none",
        role: "img", "aria-label": label },
      [0.5, 56, 111.5].map((y) => s("line", { class: "grid", x1: 0, x2: 600,
        y1: y, y2: y })), picture),
      h("span", { class: "tick" }, count(top)),
      h("span", { class: "tick half" }, count(top / 2))),
    h("div", { class: "axis", "aria-hidden": "true" },
      h("span", null, "10 min ago"), h("span", null, "5 min"),
      h("span", null, "now")));
}

function depthPlot(series, title) {
  const known = series.depth.filter((value) => value !== null);
  const top = ceiling(Math.max(0, ...known));
  const [line, area] = shape(series.depth, 600, 112, top);
  const last = known.length ? known[known.length - 1] : 0;
  return frame(title, count(last) + " now", top,
    [s("path", { class: "area", d: area }),
      s("path", { class: "stroke", d: line })],
    title + " over the last ten minutes, now " + last);
}

function donePlot(series) {
  const seconds = series.width_ms / 1000;
  // The last bar is not over: it is as high as what was seen of it lets expect.
  const part = Math.min(1, Math.max(0.3, 1 - (series.end_ms - series.at_ms)
    / series.width_ms));
  const last = series.done.length - 1;
  const full = (list) => list.map((n, i) => i === last ? n / part : n);
  const done = full(series.done), failed = full(series.failed);
  const all = done.map((n, i) => n + failed[i]);
  const top = ceiling(Math.max(0, ...all) / seconds);
  const wide = 600 / all.length;
  const bars = all.map((n, i) => {
    if (!n) return null;
    const y = (value) => Math.min(112, 112 * value / seconds / top);
    const bad = y(failed[i]), good = y(done[i]);
    const x = (i * wide + 0.8).toFixed(1), width = (wide - 1.6).toFixed(1);
    return s("g", null, s("title", null, count(series.done[i])
      + " completed, " + count(series.failed[i]) + " failed or cancelled in "
      + seconds + " s"),
    s("rect", { class: "ok", x, width, y: (112 - good - bad).toFixed(1),
      height: good.toFixed(1) }),
    s("rect", { class: "bad", x, width, y: (112 - bad).toFixed(1),
      height: bad.toFixed(1) }));
  });
  const peak = Math.max(0, ...all) / seconds;
  return frame("Ended per second", "peak " + rate(peak), top, bars,
    "Jobs that ended per second over the last ten minutes");
}

function plots(series, title) {
  return h("div", { class: series.done ? "columns" : "" },
    h("div", { class: "sheet" }, depthPlot(series, title)),
    series.done ? h("div", { class: "sheet" }, donePlot(series)) : null);
}

/* ---------------------------------------------------------------------- */
/* Parts of views */

const words = { interrupted_reclaimed: "taken over",
  dead_letter: "dead letters",
  running: "running", retry: "asked for a retry", success: "succeeded",
  reprocessing: "claimed", command_in_front: "a command is in front",
  capability: "capabilities are missing", kept_back: "kept back",
  grant_needed: "a grant is needed", reclaims_used_up: "reclaims are used up",
  boundary: "another boundary", busy: "the session is busy",
  partition: "another partition", limit: "at its limit",
  rate: "at its rate limit", timezone: "its time zone is not known here",
  unknown: "not known" };

const state = (name) => h("span", { class: "state" },
  h("span", { class: "dot " + name }), words[name] || name);

const to = (path, given) => {
  const query = new URLSearchParams(given).toString();
  return path + (query ? "?" + query : "");
};
const scopeLink = (discipline, scope, name) => h("a", { class: name || "link",
  href: to("/scope", { d: discipline, s: scope }) },
scope === "" ? "(empty name)" : scope);

const rowPage = { lane: "/job", session: "/batch", outbox: null, contest: null,
  dead_letter: "/letter" };

/* The name of a worker: on one line, however long. */
const who = (owner, incarnation, bold) => h("span", { class: "who",
  title: incarnation ? owner + " " + incarnation : owner },
bold ? h("b", null, owner) : owner,
incarnation ? h("span", { class: "sub" }, " ", incarnation) : null);

function item(row) {                  // what a worker holds
  const path = rowPage[row.discipline];
  const name = row.discipline === "outbox" ? "partition " + row.key
    : row.discipline === "contest" ? "" : "#" + row.key;
  return [scopeLink(row.discipline, row.scope), " ",
    path ? h("a", { class: "link", href: to(path, { id: row.key }) }, name)
      : name, row.n > 1 ? " ×" + row.n : ""];
}

function number(n, label, style, more) {
  return h("td", { class: "num " + (n ? style || "" : "zero none"),
    "data-label": label }, count(n, n ? more : ""));
}

function head(columns, sort) {
  return h("thead", null, h("tr", null, columns.map(([name, key, style]) =>
    h("th", { class: style, scope: "col", "aria-sort": sort && key
      && sort.key === key ? (sort.down ? "descending" : "ascending") : null },
    sort && key ? h("button", { type: "button", "data-do": "sort",
      "data-with": key }, name) : name))));
}

function section(title, note, right, ...content) {
  return h("section", { class: "section" },
    h("div", { class: "head" }, h("h2", null, title),
      note ? h("span", { class: "note" }, note) : null,
      right ? h("div", { class: "right" }, right) : null), content);
}

const empty = (text) => h("div", { class: "sheet" },
  h("p", { class: "empty" }, text));

function tabs(name, choices, chosen) {
  return h("div", { class: "tabs", role: "group" }, choices.map(([key, text]) =>
    h("button", { type: "button", "data-do": "set", "data-name": name,
      "data-with": key, "aria-pressed": String(key === chosen) }, text)));
}

function search(name, text, value) {
  return h("input", { class: "field", type: "search", "data-search": name,
    placeholder: text, title: "/", "aria-label": text, value: value || "",
    autocomplete: "off", spellcheck: "false" });
}

function pager(next) {
  const back = view.stack.length > 0;
  if (!back && !next) return null;
  return h("div", { class: "pager" },
    h("button", { class: "button", type: "button", "data-do": "back",
      disabled: !back }, "Previous"),
    h("button", { class: "button", type: "button", "data-do": "next",
      disabled: !next, "data-with": next }, "Next"));
}

function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) =>
    value !== null && value !== undefined && value !== "")
    .map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

function payload(title, value, row) {
  let note = null;
  if (row) {
    const unit = row.type === "blob" ? " bytes" : " characters";
    note = row.type === "null" ? null : row.type
      + (row.type === "text" || row.type === "blob"
        ? ", " + count(row.size) + unit : "")
      + (row.size > 65536 && (row.type === "text" || row.type === "blob")
        ? ", of which the first 65,536 are shown" : "");
  }
  return section(title, note, null, h("div", { class: "sheet" },
    h("pre", { tabindex: 0, "aria-label": title }, whole(value))));
}

function counted() {
  const at = about.counted;
  if (at.approx) return "counting; up to 20,000 of each are shown so far";
  if (at.took_ms > 500) {
    return "counted " + since(at.at_ms) + " ago, which took "
      + span(at.took_ms);
  }
  return null;
}

function title(name, what, crumb, right) {
  return [crumb ? h("p", { class: "crumb" }, crumb) : null,
    h("div", { class: "title" }, h("h1", null, name),
      what ? h("span", { class: "what" }, what) : null,
      right ? h("div", { class: "right" }, right) : null)];
}

function figures(list) {
  return h("div", { class: "sheet figures" }, list.map((
    [name, n, text, unit]) => h("div", { class: "figure" + (n ? "" : " zero"), "data-figure": name },
      h("div", { class: "name" }, h("span", { class: "dot " + name }),
        unit ? "completed" : name),
      h("div", { class: "n" }, text, unit ? h("small", null, unit) : null))));
}

function counts(totals, perSecond, more) {
  const names = ["ready", "held", "delayed", "expired", "blocked", "limited",
    "dead"].filter((name) => totals[name] || !["blocked", "limited"]
    .includes(name));
  const list = names.map((name) => [name, totals[name],
    count(totals[name], totals[name] ? more : "")]);
  if (perSecond !== null && perSecond !== undefined) {
    list.push(["success", perSecond, rate(perSecond), "/s"]);
  }
  return figures(list);
}

function workerRows(workers) {
  return h("div", { class: "sheet" }, h("table", null,
    head([["Worker"], ["Holds"], ["", null, "num"], ["Lease ends in", null,
      "num"], ["Seen", null, "num opt"]]),
    h("tbody", null, workers.map((worker) =>
      h("tr", { "data-key": worker.owner + "\n" + worker.incarnation },
        h("td", { class: "lead" }, who(worker.owner, worker.incarnation,
          true)),
        h("td", null, worker.holds.length
          ? worker.holds.map((row, n) => [n ? ", " : "", item(row)])
          : h("span", { class: "zero" }, "nothing")),
        h("td", { class: "num" }, worker.expired
          ? h("span", { class: "warn" }, count(worker.expired), " expired")
          : null),
        h("td", { class: "num" + (worker.until_ms ? "" : " none"),
          "data-label": "lease ends in" },
        worker.until_ms ? when(worker.until_ms, until(worker.until_ms)) : ""),
        h("td", { class: "num opt sub", "data-label": "seen" },
          when(worker.seen_ms, since(worker.seen_ms))))))));
}

/* ---------------------------------------------------------------------- */
/* The views: load() asks, show() makes elements of the answers. */

const views = {
  "/": {
    name: "Overview",
    load: (at) => ask("overview", { filter: at.filter, sort: at.sort,
      down: at.down, first: at.cursor }),
    show(found, at) {
      const sort = { key: at.sort || "depth", down: (at.down || "1") === "1" };
      const more = about.counted.approx ? "+" : "";
      const first = Number(at.cursor || 0);
      const rare = ["blocked", "limited"].filter((name) =>
        found.totals[name]);
      return [
        title("Overview", [counted(), leaving(found.leaving)]
          .filter(Boolean).join(" · ")),
        counts(found.totals, found.rate, more),
        h("div", { class: "section" },
          plots(found.series, "Jobs waiting or held")),
        section("Scopes", found.all_scopes > found.matching && !at.filter
          ? "the " + count(found.matching) + " fullest of "
            + count(found.all_scopes) : count(found.matching), search("filter",
          "Filter scopes", at.filter),
        found.scopes.length ? h("div", { class: "sheet" }, h("table",
          { "data-table": "scopes" },
          head([["Scope", "scope"], ["Ready", "ready", "num"],
            ["Held", "held", "num"], ["Delayed", "delayed", "num"],
            ...rare.map((name) => [name[0].toUpperCase() + name.slice(1), name,
              "num"]), ["Expired", "expired", "num"], ["Dead", "dead", "num"],
            ["Oldest", "oldest", "num"], ["Per second", "rate", "num opt"],
            ["Depth, 10 min", "depth", "num opt"]], sort),
          h("tbody", null, found.scopes.map((row) =>
            h("tr", { "data-key": row.discipline + "\n" + row.scope,
              "data-scope": row.scope },
            h("td", { class: "lead" }, scopeLink(row.discipline, row.scope,
              "row"), " ", h("span", { class: "sub" }, row.discipline),
            row.paused ? [" ", h("span", { class: "pill may" }, "paused")]
              : null),
            number(row.ready, "ready", "", more),
            number(row.held, "held", "", more),
            number(row.delayed, "delayed", "", more),
            rare.map((name) => number(row[name], name)),
            number(row.expired, "expired", "warn"),
            number(row.dead, "dead", "alarm"),
            h("td", { class: "num" + (row.oldest_ready_at_ms === null
              ? " none" : ""), "data-label": "oldest" },
            when(row.oldest_ready_at_ms, since(row.oldest_ready_at_ms))),
            h("td", { class: "num opt gone" }, rate(row.rate)),
            h("td", { class: "num opt gone" }, spark(row.series))))))) : empty(
          at.filter ? "No scope has that in its name."
            : "Nothing has been put into this file yet."),
        pager(found.matching > first + found.scopes.length
          ? first + found.scopes.length : null)),
        section("Workers", grouped.format(found.all_workers),
          found.all_workers > found.workers.length ? h("a", { class: "link",
            href: "/workers" }, "All") : null,
          found.workers.length ? workerRows(found.workers)
            : empty("Nobody holds anything.")),
      ];
    },
  },

  "/workers": {
    name: "Workers",
    load: (at) => ask("workers", { filter: at.filter, first: at.cursor }),
    show(found, at) {
      const first = Number(at.cursor || 0);
      return [
        title("Workers", "who holds something, or was seen in the last"
          + " minute"),
        section(grouped.format(found.matching) + (found.matching === 1
          ? " worker" : " workers"), counted(),
        search("filter", "Filter workers", at.filter),
        found.workers.length ? workerRows(found.workers)
          : empty("Nobody is there."),
        pager(found.matching > first + found.workers.length
          ? first + found.workers.length : null)),
      ];
    },
  },

  "/scope": {
    async load(at) {
      const where = { d: at.d, s: at.s };
      const [found, rows, groups] = await Promise.all([ask("scope", where),
        at.d === "contest" ? null : at.d === "dead_letter"
          ? ask("letters", { scope: at.s, before: at.cursor })
          : ask("rows", { ...where, kind: at.kind, after: at.cursor }),
        at.d === "lane" ? ask("groups", where) : { rows: [] }]);
      found.rows = rows;
      found.groups = groups;
      // claimq_why of a long lane takes its time: the page does not wait.
      const key = at.d + "\n" + at.s;
      found.why = view.whyOf === key ? view.why : null;
      ask("why", where).then((why) => {
        if (view.at.d !== at.d || view.at.s !== at.s) return;
        view.whyOf = key;
        view.why = why.why;
        if (view.found) view.found.why = why.why;
        draw();
      }).catch(() => {});
      return found;
    },
    show(found, at) {
      const more = about.counted.approx && !found.fresh ? "+" : "";
      return [
        title(at.s === "" ? "(empty name)" : at.s,
          [[words[at.d] || at.d, found.fresh ? null : counted()]
            .filter(Boolean).join(" · "), found.paused ? [" ", h("span",
            { class: "pill may" }, "paused")] : null], h("a",
            { class: "link", href: "/" }, "Overview"),
          start.write && at.d === "lane" ? pauseButton(at.s, found.paused)
            : null),
        found.counts ? counts(found.counts, found.counts.rate, more)
          : empty("There is nothing in this scope."),
        h("div", { class: "section" }, plots(found.series, at.d === "contest"
          ? "Held" : "Waiting or held")),
        h("div", { class: "columns section" },
          section("Why a claim takes what it takes", null, null,
            whyTable(found.why)),
          section("Held", found.all_held > found.held.length ? "the first "
            + found.held.length + " of " + count(found.all_held)
            : grouped.format(found.all_held), null,
          found.held.length ? heldTable(found.held)
            : empty("Nobody holds anything here."))),
        found.policy ? h("div", { class: found.groups.rows.length
          ? "columns section" : "section" },
        section("Policy", null, null, policySheet(found)),
        found.groups.rows.length ? section("Groups", found.groups.more
          ? "the first " + found.groups.rows.length : grouped.format(
            found.groups.rows.length), null, groupTable(found.groups))
          : null) : null,
        found.schedules.length ? section("Schedules", null, null,
          scheduleTable(found.schedules)) : null,
        found.partitions ? section("Partitions", null, null,
          partitionTable(found.partitions, at)) : null,
        found.holder && found.holder.length ? section("Holder", null, null,
          h("div", { class: "sheet pad" }, facts(Object.entries(
            found.holder[0]).map(([name, value]) => [name,
            /_ms$/.test(name) ? clock(value) : value])))) : null,
        found.rows ? rowsSection(found, at) : null,
      ];
    },
  },

  "/job": {
    load: (at) => ask("job", { id: at.id }),
    show(found) {
      const job = found.job;
      return [
        title("Job " + job.job_id, state(job.kind), [h("a", { class: "link",
          href: "/" }, "Overview"), " / ", scopeLink("lane", job.lane)],
        start.write && job.terminal_at_ms === null ? [
          job.owner !== null ? h("button", { class: "button", type: "button",
            "data-do": "change", "data-with": "revoke", "data-id": job.job_id },
          "Revoke") : null,
          h("button", { class: "button danger", type: "button",
            "data-do": "change", "data-with": "cancel", "data-id": job.job_id },
          "Cancel")] : null),
        h("div", { class: "columns uneven" },
          h("div", null,
            h("div", { class: "section first" }, h("div", { class: "head" },
              h("h2", null, "Time line"), h("span", { class: "note" },
                [job.attempt_index > 0 || found.attempts.length
                  ? many(found.attempts.length, "attempt")
                  : "not yet tried", found.steps.length
                  ? many(found.steps.length, "step") : null]
                  .filter(Boolean).join(", "))),
            h("div", { class: "sheet" }, strip(job, found.attempts),
              timeLine(job, found.attempts, found.steps))),
            payload("Payload", job.payload, job),
            job.progress !== null ? payload("Progress", job.progress) : null,
            job.result !== null ? payload("Result", job.result) : null),
          h("div", null,
            section("Now", null, null, h("div", { class: "sheet pad" }, facts([
              ["state", state(job.kind)],
              ["held by", job.owner],
              ["incarnation", job.incarnation],
              ["lease ends in", job.owner === null ? null
                : when(job.expires_at_ms, until(job.expires_at_ms))],
              ["available", job.terminal_at_ms === null
                && job.owner === null
                ? when(job.available_at_ms, since(job.available_at_ms)) : null],
              ["last error", job.last_error],
              ["error class", job.error_class],
              ["attempts", most(job.attempts, job.max_attempts)],
              ["taken over", job.reclaim_count ? most(job.reclaim_count,
                job.max_reclaims) : null],
              ["priority", String(job.priority)],
              ["partition", String(job.partition)],
              ["group", job.group_key],
              ["capabilities", job.capabilities === "[]" ? null
                : job.capabilities],
              ["source key", job.source_key], ["flow", job.flow_id],
              ["namespace", job.namespace], ["instance tag", job.instance_tag],
              ["reclaim", job.reclaim === "grant" ? "by grant" : null],
            ]))),
            found.after.before.length ? section("Waits for", null, null,
              jobList(found.after.before)) : null,
            found.after.behind.length ? section("Is waited for by", null, null,
              jobList(found.after.behind)) : null,
            found.events.length ? section("Events", null, null,
              h("div", { class: "sheet pad" }, found.events.map((event) =>
                facts([["event", String(event.event_id)],
                  ["outcome", state(event.outcome)],
                  ["error class", event.error_class],
                  ["time", clock(event.occurred_at_ms)]])))) : null,
            found.letters.length ? section("Dead letter", null, null,
              h("div", { class: "sheet pad" }, found.letters.map((letter) =>
                facts([["letter", h("a", { class: "link", href: to("/letter",
                  { id: letter.letter_id }) }, "#" + letter.letter_id)],
                ["status", state(letter.status)],
                ["requeued as", letter.requeued_as]])))) : null)),
      ];
    },
  },

  "/batch": {
    load: (at) => ask("batch", { id: at.id }),
    show: ({ batch }) => [
      title("Batch " + batch.enqueue_seq, state(batch.kind), [h("a", {
        class: "link", href: "/" }, "Overview"), " / ",
      scopeLink("session", batch.session)]),
      rest(batch), payload("Payload", batch.payload, batch)],
  },

  "/message": {
    load: (at) => ask("message", { id: at.id }),
    show: ({ message }) => [
      title("Message " + message.seq, "partition " + message.partition, [
        h("a", { class: "link", href: "/" }, "Overview"), " / ",
        scopeLink("outbox", message.queue)]),
      rest(message), payload("Payload", message.payload, message)],
  },

  "/letters": {
    name: "Dead letters",
    load: (at) => ask("letters", { status: at.status, search: at.search,
      source: at.source, scope: at.scope, before: at.cursor }),
    show(found, at) {
      return [
        title("Dead letters", at.scope ? h("span", null, "of ", at.scope, " ",
          h("a", { class: "link", href: "/letters" }, "all")) : null),
        h("div", { class: "section first" },
          letterSection(found, at, true)),
      ];
    },
  },

  "/letter": {
    load: (at) => ask("letter", { id: at.id }),
    show({ letter }) {
      const open = letter.status === "pending"
        || letter.status === "reprocessing";
      const place = letter.source === "outbox"
        ? String(letter.scope).replace(/\/\d+$/, "") : letter.scope;
      return [
        title("Letter " + letter.letter_id, state(letter.status), [
          h("a", { class: "link", href: "/letters" }, "Dead letters"), " / ",
          scopeLink(letter.source, place)],
        open ? changes([letter.letter_id]) : null),
        h("div", { class: "sheet pad" }, facts([
          ["reason", letter.reason === null ? null
            : h("span", { class: "alarm" }, letter.reason)],
          ["error class", letter.error_class],
          ["source", letter.source], ["scope", letter.scope],
          ["reference", letter.source === "lane" ? h("a", { class: "link",
            href: to("/job", { id: letter.ref }) }, "job " + letter.ref)
            : short(letter.ref)],
          ["attempts", String(letter.attempts)],
          ["created", clock(letter.created_at_ms)],
          ["failed", clock(letter.failed_at_ms)],
          ["held by", letter.owner],
          ["lease ends in", letter.owner === null ? null
            : until(letter.expires_at_ms)],
          ["requeued as", letter.requeued_as === null ? null
            : short(letter.requeued_as)],
          ["payload type", letter.payload_type]])),
        payload("Payload", letter.payload, letter)];
    },
  },

  "/schedules": {
    name: "Schedules",
    load: (at) => ask("schedules", { after: at.cursor }),
    show: (found) => [
      title("Schedules"),
      found.rows.length ? scheduleTable(found.rows)
        : empty("There are no schedules."),
      pager(found.after)],
  },
};

function whyTable(rows) {
  if (!rows) return empty("Looking …");
  if (!rows.length) return empty("There is nothing to claim.");
  return h("div", { class: "sheet" }, h("table", { "data-table": "why" },
    h("tbody", null, rows.map((row) => h("tr", { "data-key": row.reason },
      h("td", { class: "lead" }, state(row.reason), row.detail
        && row.detail !== row.reason ? h("div", { class: "sub" },
          short(row.detail)) : null),
      h("td", { class: "num" }, count(row.n)),
      h("td", { class: "num sub" }, row.until_at_ms === null ? ""
        : when(row.until_at_ms, "until " + clock(row.until_at_ms))))))));
}

function heldTable(rows) {
  return h("div", { class: "sheet" }, h("table", { "data-table": "held" },
    h("tbody", null, rows.map((row) => {
      const path = rowPage[row.discipline];
      const live = Number(row.expires_at_ms) > now();
      const name = row.discipline === "outbox" ? "partition " + row.key
        : "#" + row.key;
      return h("tr", { "data-key": String(row.key) },
        h("td", null, path ? h("a", { class: "row", href: to(path,
          { id: row.key }) }, name) : h("b", null, name),
        row.n > 1 ? h("span", { class: "sub" }, " ×" + row.n) : null),
        h("td", null, who(row.owner, row.incarnation)),
        h("td", { class: "num" + (live ? "" : " warn") },
          when(row.expires_at_ms, (live ? "for " : "") +
            until(row.expires_at_ms))));
    }))));
}

function rowsSection(found, at) {
  const page = found.rows;
  if (at.d === "dead_letter") {
    return h("div", { class: "section" }, letterSection(page, at, false));
  }
  if (at.d === "session") {
    return section("Batches", "in order", null, page.rows.length
      ? h("div", { class: "sheet" }, h("table", { "data-table": "rows" },
        head([["Batch"], ["State"], ["Class"], ["Payload"],
          ["Enqueued", null, "num"]]),
        h("tbody", null, page.rows.map((row) => h("tr", { "data-key":
          String(row.enqueue_seq) },
        h("td", null, h("a", { class: "row", href: to("/batch",
          { id: row.enqueue_seq }) }, "#" + row.enqueue_seq)),
        h("td", null, state(row.kind)),
        h("td", { class: "sub" }, row.work_class.replace("_", " ")),
        h("td", { class: "clip mono" }, short(row.payload)),
        h("td", { class: "num", "data-label": "enqueued" },
          when(row.created_at_ms, since(row.created_at_ms)))))))) :
      empty("There are none."), pager(page.after));
  }
  if (at.d === "outbox") {
    return section("Messages to come", "partition " + (at.kind || 0), null,
      page.rows.length ? h("div", { class: "sheet" }, h("table",
        { "data-table": "rows" },
        head([["Seq"], ["Payload"], ["Type", null, "opt"],
          ["Published", null, "num"]]),
        h("tbody", null, page.rows.map((row) => h("tr", { "data-key":
          String(row.seq) },
        h("td", null, h("a", { class: "row", href: to("/message",
          { id: row.message_id }) }, "#" + row.seq)),
        h("td", { class: "clip mono" }, short(row.payload)),
        h("td", { class: "opt sub" }, row.payload_type),
        h("td", { class: "num", "data-label": "published" },
          when(row.created_at_ms, since(row.created_at_ms)))))))) :
        empty("There are none."), pager(page.after));
  }
  const kind = at.kind || "";
  const ended = kind === "ended";
  const choices = [["", "Waiting and held"], ["delayed", "Delayed"]];
  if (found.blocked) choices.push(["blocked", "Blocked"]);
  choices.push(["ended", "Ended"]);
  return section("Jobs", null, tabs("kind", choices, kind),
    page.rows.length ? h("div", { class: "sheet" }, h("table",
      { "data-table": "rows" },
      head([["Job"], ["State"], ["Payload"], ["Priority", null, "num opt"],
        ["Attempt", null, "num opt"],
        [ended ? "Ended" : kind === "delayed" ? "Available" : "Age", null,
          "num"]]),
      h("tbody", null, page.rows.map((row) => h("tr", { "data-key":
        String(row.event_id || row.job_id), "data-job": row.job_id },
      h("td", null, h("a", { class: "row", href: to("/job",
        { id: row.job_id }) }, "#" + row.job_id)),
      h("td", null, state(row.kind), row.owner ? h("span",
        { class: "sub" }, " ", who(row.owner)) : null),
      h("td", { class: "clip mono" }, row.type ? short(row.payload) : ""),
      h("td", { class: "num opt gone" }, count(row.priority)),
      h("td", { class: "num opt gone" }, count(row.attempt_index)),
      h("td", { class: "num" }, ended ? when(row.terminal_at_ms,
        since(row.terminal_at_ms)) : kind === "delayed"
        ? when(row.available_at_ms, since(row.available_at_ms))
        : when(row.created_at_ms, since(row.created_at_ms)))))))) :
      empty(ended ? "None has ended lately." : "There are none."),
    pager(page.after));
}

function partitionTable(rows, at) {
  return h("div", { class: "sheet" }, h("table", { "data-table": "partitions" },
    head([["Partition"], ["State"], ["Behind", null, "num"],
      ["Cursor", null, "num opt"], ["Attempts", null, "num"],
      ["Waits since", null, "num"], ["Last error", null, "opt"]]),
    h("tbody", null, rows.map((row) => h("tr", { "data-key":
      String(row.partition) },
    h("td", { class: "lead" }, h("a", { class: "row", href: to("/scope",
      { d: at.d, s: at.s, kind: row.partition }) }, "Partition "
      + row.partition)),
    h("td", null, state(row.kind), row.owner ? h("span", { class: "sub" },
      " ", who(row.owner)) : null),
    number(row.last_seq - row.processed_seq, "behind"),
    h("td", { class: "num opt gone" }, count(row.processed_seq)),
    number(row.attempts, "attempts", row.attempts > 2 ? "warn" : ""),
    h("td", { class: "num", "data-label": "waits" },
      when(row.waiting_since_ms, since(row.waiting_since_ms))),
    h("td", { class: "opt sub clip" }, row.last_error || ""))))));
}

/* How many of how many; the job may leave that to the policy of its lane. */
const most = (n, all) => count(n) + (given(all) ? " of " + count(all) : "");

function meter(n, all) {
  const part = all > 0 ? Math.min(1, n / all) : 1;
  return [most(n, all), h("div", { class: "meter"
    + (part >= 1 ? " full" : "") }, s("svg", { viewBox: "0 0 100 6",
    preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect",
    { width: (part * 100).toFixed(1), height: 6 })))];
}

function pauseButton(lane, paused) {
  return h("button", { class: "button", type: "button", "data-do": "change",
    "data-with": paused ? "resume" : "pause", "data-lane": lane },
  paused ? "Resume" : "Pause");
}

const given = (value) => value !== null && value !== undefined;

function limitFacts(limit, counts) {
  return [
    ["active at a time", given(limit.max_active) ? limit.max_active === 0
      ? "none: the lane is paused" : meter(limit.active, limit.max_active)
      : null],
    ["claims in " + span(limit.per_ms || 0), given(limit.rate)
      ? meter(limit.started, limit.rate) : null],
    ["active in each group", given(limit.group_max_active) ? "at most "
      + count(limit.group_max_active) : null],
    ["claims of each group", given(limit.group_rate) ? "at most "
      + count(limit.group_rate) + " in " + span(limit.group_per_ms) : null],
    ["groups", limit.fair ? "take turns" : null],
    ["groups at their limit", limit.full_groups.length ? limit.full_groups
      .map((one) => one.group_key).join(", ") : null],
    ["held back now", counts && counts.limited ? count(counts.limited)
      : null]];
}

/* What a policy can say of a lane and, if the lane does not, of every lane;
   and how that is shown. */
const kept = (ms) => ms < 0 ? "for ever" : ms === 0 ? "not at all"
  : "for " + span(ms);
const sayings = [
  ["paused", "claims", (n) => n ? "paused: none begins" : "not paused"],
  ["lease_ms", "lease", span],
  ["strict", "expired claims", (n) => n ? "are lost" : "may be settled"],
  ["max_attempts", "attempts", (n) => "at most " + count(n)],
  ["backoff_ms", "first retry", (n) => "after " + span(n)],
  ["backoff_factor", "each further retry", (n) => "waits " + count(n)
    + " times as long"],
  ["backoff_max_ms", "a retry waits", (n) => "at most " + span(n)],
  ["max_reclaims", "leases that may expire", (n) => "at most " + count(n)],
  ["max_runtime_ms", "a job runs", (n) => "at most " + span(n)],
  ["keep_ms", "ended jobs are kept", kept],
  ["keep_failed_ms", "failed jobs are kept", kept],
  ["events", "events", (n) => n ? "are written" : "none are written"],
  ["reclaim", "reclaim", (word) => word === "grant" ? "by grant" : word],
  ["admission", "admission", (word) => word === "grant" ? "by grant" : word],
];

function policySheet(found) {
  const from = [[found.policy.own[0], ""], [found.policy.every[0],
    " for every lane"], [found.policy.built_in, " built in"]];
  const said = sayings.map(([name, label, text]) => {
    const [first] = from.filter(([one]) => one && given(one[name]));
    return [label, first ? [text(first[0][name]), h("span", { class: "sub" },
      first[1])] : null];
  });
  return h("div", { class: "sheet pad", "data-policy": "" }, facts([
    said[0], ...(found.limits.length ? limitFacts(found.limits[0],
      found.counts) : []), ...said.slice(1),
    ["kept long enough", leaving(found.leaving)]]));
}

/* Retention: jobs that were kept as long as a policy says. */
const leaving = ({ n, rough }) => n ? (rough ? "at least " : "")
  + many(n, "ended job") + " will be removed" : null;

function groupTable({ rows, rough }) {
  const closed = { group_max_active: "at its limit",
    group_rate: "at its rate limit" };
  const plus = (n, more) => n >= 1000 || more ? "+" : "";
  return h("div", { class: "sheet tall", tabindex: 0, role: "region",
    "aria-label": "Groups" }, h("table", { "data-table": "groups" },
  head([["Group"], ["Held", null, "num"], ["Waiting", null, "num"],
    ["Opens", null, "num"]]),
  h("tbody", null, rows.map((row) => h("tr", { "data-key": row.group_key },
    h("td", { class: "lead" }, row.group_key || "(empty name)"),
    number(row.held, "held", "", plus(row.held)),
    number(row.waiting, "waiting", "", plus(row.waiting, rough)),
    h("td", { class: "num" }, row.limit ? [h("span", { class: "warn" },
      closed[row.limit]), row.opens_at_ms === null ? null : [" ",
      h("span", { class: "sub" }, when(row.opens_at_ms,
        until(row.opens_at_ms)))]] : h("span", { class: "sub" },
    "open")))))));
}

function scheduleTable(rows) {
  return h("div", { class: "sheet" }, h("table", { "data-table": "schedules" },
    head([["Schedule"], ["When"], ["Lane"], ["Next", null, "num"],
      ["Payload", null, "opt"]]),
    h("tbody", null, rows.map((row) => h("tr", { "data-key": row.name },
      h("td", { class: "lead" }, h("b", null, row.name),
        row.enabled === 0 ? h("span", { class: "sub" }, " off") : null),
      h("td", { class: "mono" }, row.spec, row.timezone
        ? h("span", { class: "sub" }, " ", row.timezone) : null),
      h("td", null, scopeLink("lane", row.lane)),
      h("td", { class: "num", "data-label": "next" }, row.next_at_ms === null
        ? "never" : [when(row.next_at_ms, clock(row.next_at_ms)),
          h("span", { class: "sub" }, " ", since(row.next_at_ms))]),
      h("td", { class: "opt clip mono" }, short(row.payload)))))));
}

function changes(ids) {
  const none = !start.write || ids.length === 0;
  const why = start.write ? null : "This board is read-only: start it with"
    + " --write";
  return [["requeue", "Requeue", ""], ["discard", "Discard", " danger"]]
    .map(([what, name, style]) => h("button", { class: "button" + style,
      type: "button", "data-do": "change", "data-with": what,
      "data-id": ids.join(" "), disabled: none, title: why }, name
      + (ids.length > 1 ? " " + ids.length : "")));
}

function letterSection(found, at, controls) {
  const status = at.status || "open";
  const open = status === "open" || status === "all";
  const ids = found.rows.filter((row) => view.chosen.has(row.letter_id))
    .map((row) => row.letter_id);
  return [
    h("div", { class: "head" }, controls ? [tabs("status", [["open", "Open"],
      ["resolved", "Resolved"], ["discarded", "Discarded"], ["all", "All"]],
    status), search("search", "Search reason, class, payload", at.search)]
      : h("h2", null, "Letters"),
    h("div", { class: "right" }, ids.length ? h("span", { class: "note" },
      ids.length + " chosen") : null, open ? changes(ids) : null)),
    found.rows.length ? h("div", { class: "sheet" }, h("table",
      { "data-table": "letters" },
      h("thead", null, h("tr", null,
        h("th", null, h("input", { type: "checkbox", "data-do": "all",
          "aria-label": "Choose all of this page", checked: ids.length > 0
            && ids.length === found.rows.length })),
        [["Letter"], ["Scope"], ["Reason"], ["Payload", "opt"],
          ["Tries", "num opt"], ["Failed", "num"]].map(([name, style]) =>
          h("th", { scope: "col", class: style }, name)))),
      h("tbody", null, found.rows.map((row) => h("tr", { "data-key":
        String(row.letter_id), "data-letter": row.letter_id },
      h("td", null, h("input", { type: "checkbox", "data-do": "choose",
        "data-with": row.letter_id, "aria-label": "Choose letter "
          + row.letter_id, checked: view.chosen.has(row.letter_id) })),
      h("td", null, h("a", { class: "row", href: to("/letter",
        { id: row.letter_id }) }, "#" + row.letter_id),
      status !== "open" || row.status !== "pending" ? h("div",
        { class: "sub" }, state(row.status)) : null),
      h("td", null, row.scope, " ", h("span", { class: "sub" }, row.source)),
      h("td", { class: "reason" }, row.reason === null ? "" : row.reason,
        row.error_class ? h("div", { class: "sub" }, row.error_class) : null),
      h("td", { class: "opt clip mono" }, short(row.payload)),
      h("td", { class: "num opt gone" }, count(row.attempts)),
      h("td", { class: "num", "data-label": "failed" },
        when(row.failed_at_ms, since(row.failed_at_ms)))))))) :
      empty(at.search ? found.before ? "None among those looked at so far: Next"
        + " goes on." : "No letter has that in it." : status === "open"
        ? "No dead letters. Good." : "There are none."),
    pager(found.before)];
}

function jobList(rows) {
  return h("div", { class: "sheet" }, h("table", null, h("tbody", null,
    rows.map((row) => h("tr", { "data-key": String(row.job_id) },
      h("td", null, h("a", { class: "row", href: to("/job",
        { id: row.job_id }) }, "#" + row.job_id)),
      h("td", null, row.lane), h("td", { class: "num" },
        state(row.state)))))));
}

function rest(row) {                  // all columns of a row but its payload
  return h("div", { class: "sheet pad" }, facts(Object.entries(row)
    .filter(([name, value]) => value !== null && !["payload", "type", "size",
      "kind"].includes(name)).map(([name, value]) => [name,
      /_ms$/.test(name) ? clock(value) : short(value)])));
}

/* The attempts of a job on one line, as long as they took. */
function strip(job, attempts) {
  const first = Math.min(Number(job.created_at_ms),
    ...attempts.map((one) => Number(one.started_at_ms)));
  const last = Math.max(job.terminal_at_ms === null ? now()
    : Number(job.terminal_at_ms), first + 1);
  const x = (at) => 600 * (Math.min(last, Number(at)) - first) / (last - first);
  return h("div", { class: "strip" }, s("svg", { viewBox: "0 0 600 30",
    preserveAspectRatio: "none", role: "img", "aria-label": attempts.length
      + " attempts in " + span(last - first) },
  s("line", { class: "base", x1: 0, x2: 600, y1: 15, y2: 15 }),
  attempts.map((one) => {
    const left = x(one.started_at_ms);
    const right = x(one.ended_at_ms === null ? last : one.ended_at_ms);
    return s("rect", { class: one.outcome || "running", x: left.toFixed(1),
      width: Math.max(4, right - left).toFixed(1), y: 6, height: 18, rx: 2 },
    s("title", null, "attempt " + one.attempt_index));
  })), h("div", { class: "axis note" }, ""));
}

function headers(text) {              // a JSON object, or the start of one
  let found = null;
  try {
    found = Object.entries(JSON.parse(text));
  } catch (error) {
    return h("div", { class: "sub mono headers" }, text);
  }
  return h("dl", { class: "facts headers" }, found.map(([name, value]) =>
    [h("dt", null, name), h("dd", { class: "mono" }, typeof value === "string"
      ? value : JSON.stringify(value))]));
}

function timeLine(job, attempts, steps) {
  const rows = [];
  const add = (kind, at, text, ...more) => rows.push(h("li", null,
    h("span", { class: "dot " + kind }), h("div", null, text, more),
    h("div", { class: "when" }, when(at, clock(at)))));
  add("", job.created_at_ms, "Submitted", job.headers === null ? null
    : headers(job.headers));
  let next = 0;                       // of the steps
  const addSteps = (before) => {
    for (; next < steps.length && steps[next].at_ms < before; next++) {
      const one = steps[next];
      add("step", one.at_ms, ["Step ", h("b", null, one.name)], h("div",
        { class: "sub mono value" }, short(one.value), one.size > 200
          && (one.type === "text" || one.type === "blob") ? " …" : ""));
    }
  };
  for (const one of attempts) {
    addSteps(one.started_at_ms);
    const end = one.ended_at_ms === null ? now() : Number(one.ended_at_ms);
    const kind = one.outcome || "running";
    add(kind, one.started_at_ms, [h("b", null, "Attempt "
      + one.attempt_index), " ", words[kind] || kind, " · ",
    one.outcome === null ? "for " : "ran ",
    span(Math.max(0, end - Number(one.started_at_ms)))],
    h("div", { class: "sub" }, one.owner, one.incarnation ? " ("
      + one.incarnation + ")" : ""),
    one.error ? h("div", { class: "error" }, one.error, one.error_class
      ? h("span", { class: "sub" }, " ", one.error_class) : null) : null);
  }
  addSteps(Infinity);
  if (job.terminal_at_ms !== null) {
    add(job.state, job.terminal_at_ms, h("b", null, job.state[0].toUpperCase()
      + job.state.slice(1)));
  } else if (job.kind === "delayed") {
    add("delayed", job.available_at_ms, ["To be had ",
      since(job.available_at_ms)]);
  } else if (job.kind === "ready") add("ready", now(), "Ready to be claimed");
  else if (job.kind === "blocked") add("blocked", now(), "Waits for others");
  else if (job.kind === "expired") {
    add("expired", job.expires_at_ms, "The lease has ended: the next claim"
      + " may take it over");
  }
  return h("ol", { class: "time" }, rows);
}

/* ---------------------------------------------------------------------- */
/* Going from view to view */

const view = { at: {}, found: null, path: "", turn: 0, stack: [],
  chosen: new Set(), why: null, whyOf: "" };

function where() {
  const at = Object.fromEntries(new URLSearchParams(location.search));
  return at;
}

function go(href, replace) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  arrive(!replace);
}

function arrive(fresh) {
  view.path = location.pathname;
  view.at = where();
  view.stack = [];
  view.chosen.clear();
  if (fresh) {
    view.found = null;
    scrollTo(0, 0);
  }
  load().then(() => {
    if (fresh) $("view").focus({ preventScroll: true });
  });
}

function set(changed) {               // other parameters of this view
  const at = { ...view.at, ...changed };
  delete at.cursor;
  for (const name of Object.keys(at)) if (at[name] === "") delete at[name];
  go(to(view.path, at), true);
}

async function load() {
  const turn = ++view.turn;
  const page = views[view.path];
  if (!page) return;
  try {
    const found = await page.load(view.at);
    if (turn !== view.turn) return;   // somebody has gone on meanwhile
    if (about.edition !== start.edition) return await replaced();
    view.found = found;
    trouble(about.trouble);
  } catch (error) {
    if (turn !== view.turn) return;
    trouble(error.message);
  }
  draw();
}

/* Another file was put in place of the one that was shown: nothing that was
   chosen here, and no question that is open, is about its rows. */
async function replaced() {
  const earlier = start.edition;
  await begin();
  if ($("dialog").open) $("dialog").close("no");
  if (earlier) toast("The file was replaced by another: this is the new one.");
  arrive(true);
}

function trouble(text) {
  $("trouble").hidden = !text;
  $("trouble").textContent = text || "";
}

function draw() {
  const page = views[view.path];
  const next = h("main", { id: "view", tabindex: -1 }, view.found
    ? page.show(view.found, view.at) : null);
  morph($("view"), next);
  const heading = $("view").querySelector("h1");
  document.title = (heading ? heading.textContent + " · " : "") + "claimq";
  const nav = h("nav", { id: "nav", "aria-label": "Pages" },
    Object.entries(views).filter(([path, one]) => one.name
      && (path !== "/schedules" || start.schedules)).map(([path, one]) =>
      h("a", { href: path, "aria-current": path === view.path ? "page"
        : null }, one.name, path === "/letters" && about.dead
        ? h("span", { class: "badge" }, count(about.dead)) : null)));
  morph($("nav"), nav);
}

/* ---------------------------------------------------------------------- */
/* What changes */

let due = false, busy = false;

async function refresh() {            // at most two a second
  due = true;
  if (busy || document.hidden) return;
  busy = true;
  while (due && !document.hidden) {
    due = false;
    await load();
    await new Promise((done) => setTimeout(done, 500));
  }
  busy = false;
}

function listen() {
  const source = new EventSource("/api/live");
  const show = (style, text) => {
    $("live").className = "live " + style;
    $("live").textContent = text;
  };
  show("", "connecting");
  source.addEventListener("open", () => show("on", "live"));
  source.addEventListener("message", refresh);
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) {
      show("off", "ended");
      trouble("The board has ended, or this browser's cookie is of an earlier"
        + " one: open the address that claimq board has printed.");
    } else show("off", "not connected");
  });
}

function toast(text) {
  $("toast").textContent = text;
  $("toast").classList.add("on");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => $("toast").classList.remove("on"), 6000);
}

function confirm(heading, text, yes) {
  return new Promise((done) => {
    const dialog = $("dialog");
    dialog.replaceChildren(h("form", { method: "dialog", class: "pad" },
      h("h2", null, heading), h("p", null, text),
      h("div", { class: "pager" },
        h("button", { class: "button", value: "no" }, "No"),
        h("button", { class: "button main", value: "yes", autofocus: true },
          yes))));
    dialog.returnValue = "no";
    dialog.addEventListener("close",
      () => done(dialog.returnValue === "yes"), { once: true });
    dialog.showModal();
  });
}

const questions = {
  requeue: ["Requeue", "put back as new work, with fresh attempts"],
  discard: ["Discard", "given up for good"],
  cancel: ["Cancel", "ended, and never run"],
  revoke: ["Revoke", "taken from who holds it; the next claim is a new"
    + " attempt"],
  pause: ["Pause", "paused: no claim begins, and what is held is finished"],
  resume: ["Resume", "open to claims again"],
};

async function alter(what, ids) {
  const [name, text] = questions[what];
  const edition = start.edition;      // of the file that the question is about
  const many = ids.length > 1 ? ids.length + " letters are "
    : (what === "cancel" || what === "revoke" ? "Job " : what === "pause"
      || what === "resume" ? "Lane " : "Letter ") + ids[0] + " is ";
  if (!await confirm(name + "?", many + text + ".", name)) return;
  try {
    const { results } = await change(what, ids, edition);
    const refused = results.filter((one) => one.error);
    for (const one of results) if (!one.error) view.chosen.delete(one.id);
    toast(refused.length ? refused[0].error + (refused.length > 1 ? " (and "
      + (refused.length - 1) + " more)" : "") : results.length === 1
      ? name + ": " + short(results[0].result)
      : name + ": " + results.length + " done");
  } catch (error) {
    toast(error.message);
  }
  load();
}

function help() {
  const keys = [["j  k", "next, previous row"], ["enter", "open it"],
    ["x", "choose it (dead letters)"], ["/", "search"], ["o", "overview"],
    ["w", "workers"], ["l", "dead letters"], ["c", "schedules"],
    ["t", "light, dark, as the system"], ["?", "this"]];
  $("dialog").replaceChildren(h("form", { method: "dialog", class: "pad" },
    h("h2", null, "Keys"), h("div", { class: "keys" }, keys.map(([key, text]) =>
      [h("span", null, key.split("  ").map((one, n) => [n ? " " : "",
        h("kbd", null, one)])), h("span", null, text)])),
    h("div", { class: "pager" }, h("span", { class: "note" }, "claimq "
      + start.version), h("button", { class: "button", autofocus: true },
      "Close"))));
  $("dialog").showModal();
}

/* ---------------------------------------------------------------------- */
/* Hands */

const deeds = {
  theme() {
    const order = ["system", "light", "dark"];
    const wish = order[(order.indexOf(dress()) + 1) % 3];
    stored("theme", wish);
    dress();
    toast("Theme: " + wish);
  },
  help,
  sort(key) {
    const down = (view.at.sort || "depth") === key
      ? ((view.at.down || "1") === "1" ? "0" : "1")
      : key === "scope" ? "0" : "1";
    set({ sort: key, down });
  },
  set(value, element) { set({ [element.dataset.name]: value }); },
  next(cursor) {
    view.stack.push(view.at.cursor || "");
    view.at = { ...view.at, cursor };
    load().then(() => scrollTo(0, 0));
  },
  back() {
    view.at = { ...view.at, cursor: view.stack.pop() };
    load();
  },
  all(_, element) {
    for (const row of rowsShown()) {
      if (element.checked) view.chosen.add(row.letter_id);
      else view.chosen.delete(row.letter_id);
    }
    draw();
  },
  choose(id, element) {
    if (element.checked) view.chosen.add(Number(id));
    else view.chosen.delete(Number(id));
    draw();
  },
  change(what, element) {
    const lane = element.dataset.lane;
    alter(what, lane === undefined
      ? element.dataset.id.split(" ").map(Number) : [lane]);
  },
};

function rowsShown() {
  const found = view.found || {};
  return (view.path === "/scope" ? found.rows && found.rows.rows : found.rows)
    || [];
}

function clicked(event) {
  const element = event.target.closest("[data-do]");
  if (element) {
    if (element.type !== "checkbox") event.preventDefault();
    deeds[element.dataset.do](element.dataset.with, element);
    return;
  }
  const link = event.target.closest("a[href]");
  if (link && link.origin === location.origin && views[link.pathname]
      && !event.ctrlKey && !event.metaKey && !event.shiftKey
      && event.button === 0 && !link.hash) {
    event.preventDefault();
    go(link.href);
  }
}

let typing = 0;
function typed(event) {
  const name = event.target.dataset.search;
  if (!name) return;
  clearTimeout(typing);
  const value = event.target.value;
  typing = setTimeout(() => set({ [name]: value }), 200);
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog").open) {
    return;
  }
  const field = event.target.closest("input:not([type=checkbox]), select");
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  const rows = [...document.querySelectorAll("tbody a.row")];
  const place = rows.findIndex((row) => row.closest("tr")
    .contains(document.activeElement));
  const keys = {
    j: () => rows[Math.min(rows.length - 1, place + 1)],
    k: () => rows[Math.max(0, place - 1)],
  };
  const paths = { o: "/", w: "/workers", l: "/letters", c: "/schedules" };
  if (keys[event.key]) {
    const row = keys[event.key]();
    if (row) row.focus();
  } else if (paths[event.key]) {
    if (event.key !== "c" || start.schedules) go(paths[event.key]);
  } else if (event.key === "/") {
    const search = document.querySelector("[data-search]");
    if (search) search.focus();
  } else if (event.key === "x" && place >= 0) {
    const box = rows[place].closest("tr").querySelector("input");
    if (box) box.click();
  } else if (event.key === "t") deeds.theme();
  else if (event.key === "?") help();
  else return;
  event.preventDefault();
}

async function begin() {
  start = await ask("start");
  $("file").textContent = start.file;
  $("mode").textContent = start.write ? "writable" : "read-only";
  $("mode").classList.toggle("may", start.write);
}

document.addEventListener("DOMContentLoaded", async () => {
  document.addEventListener("click", clicked);
  document.addEventListener("input", typed);
  document.addEventListener("keydown", pressed);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && due) refresh();
  });
  addEventListener("popstate", () => arrive(true));
  setInterval(() => {
    if (view.found && !document.hidden) draw();
  }, 1000);
  try {
    await begin();
  } catch (error) {
    trouble(error.message);
  }
  arrive(true);
  listen();
});
