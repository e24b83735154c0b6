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

// The ports, as addresses to listen on.
const (
	DefaultData    = ":8480"
	DefaultControl = ":8443"
	DefaultTFTP    = ":69"

	DefaultDashboard = "127.0.0.1:8484"
)

// SocketFile is the operator's socket, in the data directory.
const SocketFile = "pando.sock"

// Config says what a server serves and where. The zero value of a field is its default.
type Config struct {
	Dir     string       // data directory; made if it is missing
	Release string       // of Pando, told to nodes and operators
	Log     *slog.Logger // nil: silent

	Data    string // address of the data path; DefaultData
	Control string // address of the control channel; DefaultControl
	TFTP    string // address of TFTP; DefaultTFTP, "off" for none

	Netconsole string // UDP address where kernels tell what they say; "" or "off": none, and nodes are not told to

	Logs         string // whether nodes send their journals here: logs.On, logs.Auto, logs.Off; "": off
	LogsSize     int64  // bytes of the disk for them; 0: journal.DefaultTotal
	LogsNodeSize int64  // and for those of one node; 0: journal.DefaultNode

	// address of the pages for browsers, a loopback one without a certificate; "" or "off" for none
	Dashboard     string
	DashboardCert string // file of a certificate, PEM; OwnCertificate: one of the site's own authority; "": no TLS
	DashboardKey  string // file of its key
	DashboardName string // further name that the site's own certificate is valid for
	DashboardOpen bool   // whoever is on this machine is an operator there, without a token
	// whoever is on this machine reads metrics and scrape targets at the dashboard's address, without a token
	MetricsOpen bool
	OpenID      *openid.Config // where people log in to the dashboard who have no password here; nil: nowhere

	// requests a second of each token, each user, and each address without a login; 0: access.DefaultRate, negative: as
	// many as they like
	APIRate int

	Store  *store.Dir     // where images are kept; nil: the directory "store" in Dir
	Direct objects.Direct // how nodes read objects past this server; nil: they do not

	DHCP      dhcp.Config // Mode "" is off; its loaders and ports are filled in here
	BootFiles string      // directory with iPXE's builds; "": what came with this program, and Debian's package ipxe
	Agent     string      // the node's program, pando-init; "": beside this program, or /usr/lib/pando
	Servers   []string    // base URLs of further data paths that hold the same store, told to nodes after this one

	Uplink int64 // bytes a second that this machine can send; 0: what its interfaces say, else 1 Gb/s

	// a boot stuck this long reboots, unless its group says otherwise; 0: DefaultRebootAfter, negative: never
	RebootAfter time.Duration
	MaxEvents   int64            // events that are kept; registry.DefaultMaxEvents
	Now         func() time.Time // the clock; time.Now

	nodeLink    int64 // bytes a second that nodes receive until they tell, for tests; 0: 1 Gb/s
	sampleLeast int64 // bytes in a second that begin samples of traffic, for tests; 0: the default
}

// DefaultRebootAfter is how long a node tries to boot before it begins anew.
const DefaultRebootAfter = 15 * time.Minute

// withDefaults fills in what was left out.
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

// checkOpenID refuses a provider that nobody could use.
func (c Config) checkOpenID() error {
	if c.OpenID == nil {
		return nil
	}
	if c.Dashboard == "" || c.Dashboard == "off" || c.DashboardOpen {
		return errors.New("OpenID provider: it is for the dashboard, which is off, or open to everybody")
	}
	return c.OpenID.Check()
}
