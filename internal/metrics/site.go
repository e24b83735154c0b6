package metrics

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options are what a Site needs.
type Options struct {
	Release string
	Look    func(context.Context) (Look, error) // returns the state of the site
	Log     *slog.Logger
}

// Site holds the instruments of one server. Its methods are safe for concurrent use.
type Site struct {
	registry *prometheus.Registry
	boots    bootMeters
	dhcp     *prometheus.CounterVec
	transfer *prometheus.CounterVec
	sent     *prometheus.CounterVec
	requests *prometheus.CounterVec
	answered *prometheus.CounterVec
	inFlight *prometheus.GaugeVec
	logged   *prometheus.CounterVec
	refusals *prometheus.CounterVec
}

// New returns a Site with all counters at zero.
func New(o Options) *Site {
	s := &Site{registry: prometheus.NewRegistry(), boots: newBootMeters(),
		dhcp: counter(
			"pando_dhcp_messages_total",
			"DHCP messages of clients, by what they are, who sent them (pxe, http, ipxe, pando-init, other), "+
				"and the answer: offer, ack, nak, none (not for this server, or beside another one) or refused "+
				"(there was nothing to give).",
			"message",
			"client",
			"answer",
		),
		transfer: counter(
			"pando_tftp_transfers_total",
			"Transfers by TFTP that ended, by outcome: sent, failed, refused (no such file), "+
				"or probe (firmware asked for the size only).",
			"outcome",
		),
		sent: counter("pando_tftp_sent_bytes_total", "Bytes of files that clients acknowledged by TFTP."),
		requests: counter(
			"pando_http_requests_total",
			"HTTP requests that were answered, by listener (data, control, socket, dashboard), "+
				"route and status code.",
			"listener",
			"route",
			"code",
		),
		answered: counter(
			"pando_http_sent_bytes_total",
			"Bytes of bodies of HTTP answers, by listener and route.",
			"listener",
			"route",
		),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pando_http_requests_in_flight",
			Help: "HTTP requests that are being answered."}, []string{"listener"}),
		refusals: counter(
			"pando_api_refusals_total",
			"Requests that were refused because who asks does so too often, by who that is: "+
				"token, user, or address where nobody logs in.",
			"by",
		),
		logged: counter("pando_log_messages_total", "Lines that the server logged, by level.", "level"),
	}
	for _, level := range []string{"error", "warn", "info"} {
		s.logged.WithLabelValues(level)
	}
	for _, outcome := range []string{"sent", "failed", "refused", "probe"} {
		s.transfer.WithLabelValues(outcome)
	}
	s.sent.WithLabelValues()
	for _, by := range []string{"token", "user", "address"} {
		s.refusals.WithLabelValues(by)
	}
	info := prometheus.NewGauge(
		prometheus.GaugeOpts{Name: "pando_build_info", Help: "1; the release of Pando is its label.",
			ConstLabels: prometheus.Labels{"release": o.Release}},
	)
	info.Set(1)
	s.registry.MustRegister(
		info,
		s.dhcp,
		s.transfer,
		s.sent,
		s.requests,
		s.answered,
		s.inFlight,
		s.logged,
		s.refusals,
		looker{
			o.Look,
			o.Log,
		},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	s.registry.MustRegister(s.boots.all()...)
	return s
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Handler sends all metrics in the requested format.
func (s *Site) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// DHCP counts a client's message. answer is "" for none; refused says that the server had nothing to give.
func (s *Site) DHCP(message, client, answer string, refused bool) {
	switch {
	case refused && answer == "":
		answer = "refused"
	case answer == "":
		answer = "none"
	}
	s.dhcp.WithLabelValues(word(message), word(client), word(answer)).Inc()
}

// Refused counts a request above the rate of a token, a user or an address.
func (s *Site) Refused(by string) { s.refusals.WithLabelValues(by).Inc() }

// TFTP counts a finished transfer.
func (s *Site) TFTP(outcome string, bytes int64) {
	s.transfer.WithLabelValues(outcome).Inc()
	s.sent.WithLabelValues().Add(float64(max(bytes, 0)))
}
