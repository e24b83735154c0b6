// Package metrics has the metrics of a server in Prometheus' text format: counters since the program started (packets,
// transfers, requests, boots), and the state of the site at the time of the scrape.
//
// It owns the instruments, in a Site. Rooms of the server count with them; server/metrics follows events and reads the
// rest for a scrape. It must never have a series per node: the number of series follows groups and versions, and is
// bounded.
package metrics
