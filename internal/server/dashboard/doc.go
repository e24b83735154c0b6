// Package dashboard shows the site in a browser: nodes and the stages of their boots, slow boots, and what runs.
//
// Pages are HTML that the server renders from replies of the operator's API. The dashboard is a client of that API and
// sees only what a token may see. Pages are complete without the script, which only replaces parts that an event made
// stale.
//
// It owns the board and the pages. The server's wiring registers its routes. It must never load anything from another
// host: style, script and font are in the program, and the content security policy forbids all else.
package dashboard
