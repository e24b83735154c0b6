package server

import (
	"errors"
	"log/slog"
	"time"

	"pando/internal/dhcp"
	"pando/internal/openid"
	"pando/internal/server/objects"
	"pando/internal/store"
)

// The default addresses to listen on.
const (
	DefaultData    = ":8480"
	DefaultControl = ":8443"
	DefaultTFTP    = ":69"

	DefaultDashboard = "127.0.0.1:8484"
)

// SocketFile is the operator's socket, in the data directory.
const SocketFile = "pando.sock"

// Config says what a server serves and where. The zero value of a field means its default.
type Config struct {
	Dir     string       // data directory; made if it is missing
	Release string       // version of Pando, shown to nodes and operators
	Log     *slog.Logger // nil: silent

	Data    string // address of the image port; DefaultData
	Control string // address of the control port; DefaultControl
	TFTP    string // address of TFTP; DefaultTFTP, "off" for none

	Netconsole string // UDP address that receives nodes' kernel messages; "" or "off": nodes send none

	Logs         string // whether nodes send their journals here: logs.On, logs.Auto, logs.Off; "": off
	LogsSize     int64  // disk space for all journals, in bytes; 0: journal.DefaultTotal
	LogsNodeSize int64  // disk space for the journals of one node, in bytes; 0: journal.DefaultNode

	// address of the dashboard; without a certificate it must be a loopback address; "" or "off": no dashboard
	Dashboard     string
	DashboardCert string // PEM file of a certificate; OwnCertificate: signed by the site's own authority; "": no TLS
	DashboardKey  string // file of its key
	DashboardName string // additional name in the site's own certificate
	DashboardOpen bool   // every user of this machine is an operator there, without a token
	// every user of this machine may read metrics and scrape targets at the dashboard's address, without a token
	MetricsOpen bool
	OpenID      *openid.Config // where people without a password here log in to the dashboard; nil: nowhere

	// limit of requests a second for each token, each user, and each address without a login; 0: access.DefaultRate,
	// negative: no limit
	APIRate int

	Store  *store.Dir     // where images are kept; nil: the directory "store" in Dir
	Direct objects.Direct // how nodes read objects from a bucket instead of from this server; nil: they do not

	DHCP      dhcp.Config // Mode "" is off; the server fills in the loaders and ports
	BootFiles string      // directory with iPXE's builds; "": those beside this program and of Debian's package ipxe
	Agent     string      // path of the node's program pando-init; "": beside this program, or /usr/lib/pando
	Servers   []string    // base URLs of other image ports with the same store; nodes try them after this server

	Uplink int64 // bytes a second that this machine can send; 0: the rate that its interfaces report, else 1 Gb/s

	// a boot that makes no progress for this long reboots, unless its group says otherwise; 0: DefaultRebootAfter,
	// negative: never
	RebootAfter time.Duration
	MaxEvents   int64            // how many events are kept; 0: registry.DefaultMaxEvents
	Now         func() time.Time // the clock; nil: time.Now

	nodeLink    int64 // assumed rate of a node that has not reported its own, in bytes a second, for tests; 0: 1 Gb/s
	sampleLeast int64 // traffic that starts the recording of samples, in bytes a second, for tests; 0: the default
}

// DefaultRebootAfter is how long a node tries to boot before it reboots.
const DefaultRebootAfter = 15 * time.Minute

// withDefaults returns c with the defaults of empty fields, or an error if a field is not valid.
func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("server: no data directory")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	for _, d := range []struct {
		field *string
		value string
	}{{&c.Data, DefaultData}, {&c.Control, DefaultControl}, {&c.TFTP, DefaultTFTP}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if c.RebootAfter == 0 {
		c.RebootAfter = DefaultRebootAfter
	}
	if c.Uplink < 0 {
		return c, errors.New("server: a link's rate is negative")
	}
	return c, errors.Join(c.checkDashboard(), c.checkOpenID(), c.DHCP.Validate())
}

// checkOpenID returns an error if an OpenID provider is configured that nobody could use.
func (c Config) checkOpenID() error {
	if c.OpenID == nil {
		return nil
	}
	if c.Dashboard == "" || c.Dashboard == "off" || c.DashboardOpen {
		return errors.New("OpenID provider: it is for the dashboard, which is off, or open to everybody")
	}
	return c.OpenID.Check()
}
