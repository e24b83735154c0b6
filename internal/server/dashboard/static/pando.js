// Keeps a page live and its map usable by keyboard and pointer. Pages are complete without this script.
(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const body = document.body;

  // The event stream. Its URL says where to start; the ids of events say where to continue.
  const query = body.dataset.live;
  const pulse = $("pulse");
  let source = null, last = "", retry = 1000, heard = Date.now(), lost = false;

  const say = (text, state) => {
    if (!pulse) return;
    pulse.hidden = false;
    pulse.className = "pulse " + state;
    if (pulse.textContent !== text) pulse.textContent = text;
  };

  const alive = (event) => {
    heard = Date.now();
    retry = 1000;
    if (event && event.lastEventId) last = event.lastEventId;
    if (lost) refresh();
    lost = false;
    say("live", "on");
  };

  const gone = () => {
    if (!lost) say("no answer since " + new Date(heard).toLocaleTimeString(), "off");
    lost = true;
  };

  const listen = () => {
    const q = new URLSearchParams(query);
    if (last) q.set("after", last);
    source = new EventSource("/live?" + q);
    source.addEventListener("beat", alive);
    source.addEventListener("stale", (e) => { alive(e); refresh(); });
    source.addEventListener("tiles", (e) => { alive(e); for (const t of JSON.parse(e.data)) paint(t); });
    source.addEventListener("counts", (e) => { alive(e); count(JSON.parse(e.data)); });
    source.addEventListener("journal", (e) => { alive(e); journal(JSON.parse(e.data)); });
    source.onerror = () => {
      gone();
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      setTimeout(listen, retry);
      retry = Math.min(retry * 2, 15000);
    };
  };

  // A hidden page closes its stream: browsers allow few connections to one server.
  const sight = () => {
    if (document.hidden) {
      if (source) source.close();
      source = null;
    } else if (!source) {
      listen();
      if (last) refresh();
    }
  };

  // The end of a journal. A reader who has scrolled up keeps the position.
  const journal = ({ reset, lines }) => {
    const box = $("journal");
    if (!box) return;
    const end = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
    if (reset) box.textContent = "";
    for (const line of lines) box.append(line + "\n");
    while (box.childNodes.length > 1000) box.firstChild.remove();
    if (end || reset) box.scrollTop = box.scrollHeight;
  };

  // The map.
  const paint = ([name, look, label]) => {
    const tile = $("n-" + name);
    if (!tile) return;
    if (tile.className !== look) {
      const was = tile.className.split(" ")[1];
      tile.className = look;
      if (was === "failed" || look.startsWith("t failed")) refresh();
    }
    tile.setAttribute("aria-label", label);
    if (tip && tip.owner === tile) tip.textContent = label;
  };

  const count = (counts) => {
    for (const [mood, n] of Object.entries(counts)) {
      const cell = document.querySelector('[data-count="' + mood + '"]');
      if (!cell || cell.textContent === String(n)) continue;
      cell.textContent = n;
      cell.parentElement.classList.toggle("zero", n === 0);
    }
  };

  // Live parts are reloaded with the whole page that they are in, one request at a time.
  let asking = false, again = false;
  const refresh = async () => {
    if (asking) { again = true; return; }
    asking = true;
    try {
      const answer = await fetch(location.href, { headers: { "X-Part": "1", Accept: "text/html" } });
      if (answer.status === 401) { location.reload(); return; }
      if (answer.status === 429) setTimeout(refresh, 1000 * (Number(answer.headers.get("Retry-After")) || 1));
      if (answer.ok) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { gone(); } finally {
      asking = false;
      if (again) { again = false; setTimeout(refresh, 500); }
    }
  };

  const replace = (page) => {
    for (const now of page.querySelectorAll("[data-part]")) {
      const old = $(now.id);
      if (!old || old.isEqualNode(now)) continue;
      const held = old.contains(document.activeElement) ? document.activeElement : null;
      const open = [...old.querySelectorAll("details[open]")].map((d) => d.id);
      old.replaceWith(now);
      for (const id of open) if ($(id)) $(id).open = true;
      if (held) (held.id && $(held.id) || now.querySelector('[href="' + CSS.escape(held.getAttribute("href") || "") + '"]') || $("main")).focus({ preventScroll: true });
    }
    prepare();
  };

  // Each area of the map is one stop of the tab key; arrow keys move between tiles.
  const prepare = () => {
    for (const tiles of document.querySelectorAll(".tiles")) {
      let first = true;
      for (const t of tiles.children) {
        t.tabIndex = first || t === document.activeElement ? 0 : -1;
        first = false;
      }
    }
  };

  const go = (from, key) => {
    const all = [...from.parentElement.children], at = all.indexOf(from);
    if (key === "ArrowRight") return all[at + 1];
    if (key === "ArrowLeft") return all[at - 1];
    if (key === "Home") return all[0];
    if (key === "End") return all[all.length - 1];
    const x = from.offsetLeft, y = from.offsetTop, down = key === "ArrowDown";
    for (let i = at; all[i]; i += down ? 1 : -1) if (all[i].offsetTop !== y && (down ? all[i].offsetLeft >= x : all[i].offsetLeft <= x)) return all[i];
    return null;
  };

  document.addEventListener("keydown", (e) => {
    const t = e.target;
    if (e.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(t.tagName) && $("select")) {
      e.preventDefault();
      $("select").focus();
      return;
    }
    if (e.key === "Escape") hide();
    if (!t.classList || !t.classList.contains("t") || !/^(Arrow|Home$|End$)/.test(e.key)) return;
    const next = go(t, e.key);
    e.preventDefault();
    if (!next) return;
    t.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });

  // The text of the tile under the pointer.
  let tip = null;
  const show = (tile, text = tile.getAttribute("aria-label"), at = tile.getBoundingClientRect()) => {
    if (!tip) {
      tip = document.createElement("div");
      tip.className = "tip";
      tip.setAttribute("aria-hidden", "true"); // the tile itself says it, or a table
      body.append(tip);
    }
    tip.owner = tile;
    tip.textContent = text;
    tip.hidden = false;
    const me = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(at.left + at.width / 2 - me.width / 2, innerWidth - me.width - 8)) + scrollX + "px";
    tip.style.top = (at.top > me.height + 12 ? at.top - me.height - 8 : at.bottom + 8) + scrollY + "px";
  };
  const hide = () => { if (tip) { tip.hidden = true; tip.owner = null; } };
  const over = (e) => {
    const t = e.target.closest && e.target.closest(".t");
    if (t) show(t);
    else if (!e.target.closest || !e.target.closest("[data-tips], [data-feed]")) hide();
  };
  document.addEventListener("pointerover", over);
  document.addEventListener("focusin", over);

  // Texts of a storm's curves and of its matrix of senders under the pointer. Tables show both, too.
  const told = (el, key) => el.told && el.told.raw === el.dataset[key] ? el.told.all : (el.told = { raw: el.dataset[key], all: JSON.parse(el.dataset[key]) }).all;
  const spot = (e) => new DOMRect(e.clientX, e.clientY - 6, 0, 12);
  const size = (kB) => kB < 1000 ? kB + " kB" : (kB / 1000).toFixed(1) + " MB";
  const clock = (e, storm) => {
    const tips = told(storm, "tips"), box = storm.getBoundingClientRect(), x = e.clientX - box.left;
    const n = Math.min(tips.length - 1, Math.floor(x / box.width * tips.length));
    if (n < 0) return;
    let line = storm.querySelector(".now");
    if (!line) {
      line = document.createElement("div");
      line.className = "now";
      storm.append(line);
    }
    line.style.left = x + "px";
    if (!e.target.closest(".lines")) show(storm, tips[n], spot(e));
  };
  const cell = (e, svg) => {
    const t = told(svg, "feed"), at = new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const y = Math.floor(at.y), x = Math.floor(at.x) - t.left, cross = svg.querySelector(".cross"), rows = t.names.length;
    const inside = y >= 0 && y < rows && at.x >= 0;
    cross.setAttribute("d", inside ? "M0 " + y + "H" + (t.left + rows) + "v1H0z" + (x >= 0 && x < rows ? "M" + (t.left + x) + " 0v" + rows + "h1V0z" : "") : "");
    if (!inside) { hide(); return; }
    if (x < 0) { show(svg, t.names[y] + ": " + size(t.server[y]) + " from the server", spot(e)); return; }
    const row = t.rows[y], from = Math.min(x, rows);
    let kB = 0;
    for (let i = 0; i < row.length; i += 2) if (row[i] === from) kB = row[i + 1];
    show(svg, t.names[y] + ": " + (kB ? size(kB) : "nothing") + " from " + (from === rows ? "nodes that were up before" : t.names[from]), spot(e));
  };
  document.addEventListener("pointermove", (e) => {
    const storm = e.target.closest && e.target.closest("[data-tips]"), svg = e.target.closest && e.target.closest("[data-feed]");
    if (storm) clock(e, storm);
    else if (svg) cell(e, svg);
    else if (tip && tip.owner && tip.owner.dataset && (tip.owner.dataset.tips || tip.owner.dataset.feed)) hide();
  });

  prepare();
  if (query) {
    document.addEventListener("visibilitychange", sight);
    sight();
  }
})();
