// Package metrics feeds the metrics of the site: it follows the events of boots, and looks at fleet and store from time
// to time.
//
// It owns the last look and the count of the store's objects; the metrics themselves are internal/metrics. The server's
// wiring runs it. It must never look more often than its bounds allow, whoever scrapes.
package metrics
