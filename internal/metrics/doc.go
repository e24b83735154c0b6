// Package metrics is what a monitoring system reads of a server, in Prometheus' text format: what happened since the
// program started (packets, transfers, requests, boots), and how the site stands at the moment of the question.
//
// A Site holds the instruments. Parts of the server tell it what they did; boots are counted from their events, and
// the rest is asked for when somebody asks. No series is of one node: a fleet of ten thousand has as many series as
// its groups and versions make, and those are bounded.
package metrics
