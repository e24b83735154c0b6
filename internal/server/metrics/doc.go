// Package metrics feeds the metrics of the site: it follows the events of boots, and reads fleet and store at
// intervals.
//
// It owns the last reading and the count of the store's objects; the instruments are in internal/metrics. The server's
// wiring runs it. It must never read more often than its limits allow, however often the site is scraped.
package metrics
