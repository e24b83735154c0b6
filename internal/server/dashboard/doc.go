// Package dashboard shows the site in a browser: nodes and the stages of their boots, slow boots, and what runs.
//
// Pages are HTML that the server renders from replies of the operator's API. The dashboard is a client of that API and
// sees only what a token may see. A tile is one node on the map of the fleet. The board is a copy of the fleet in
// memory while a browser shows it: it is read once, then events update it, and each browser gets the tiles that
// changed. A live part of a page is loaded again when an event makes it stale. Pages are complete without the script.
//
// It owns the board and the pages; a session is a cookie with the digest of a token, an expiry and a MAC, so it
// survives a restart and ends with its token. The server's wiring registers its routes. It must never load anything
// from another host: style, script and font are in the program, and the content security policy forbids all else,
// including inline scripts and styles.
package dashboard
