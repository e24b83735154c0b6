// Package dashboard is the site in a browser: who is where in a boot, what was slow, what runs.
//
// The words. A page is HTML made on the server from what the operator's API answers; the dashboard is one more
// client of that API, in the server's process, and knows nothing that a program with a token could not ask. A tile
// is one node on the map of the fleet. The board is the fleet in memory while somebody looks: it is read once, then
// events are folded into it, and each browser is sent the tiles that changed since it was sent some last. A live
// part of a page is a piece of it that the browser asks for again when it is told that it is stale.
//
// Nothing here is fetched from elsewhere: style, script and font are in the program, and the content security
// policy forbids everything else, scripts and styles in the page among them. Pages are complete without the script;
// it keeps them fresh.
//
// A session is a cookie that holds the digest of an operator's token, the time until which it is good, and a code
// that only this site could make. Nothing of it is kept here, so it outlives a restart; a token that is deleted
// ends its sessions.
package dashboard
