package build

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"pando/internal/command"
)

// OfflineError means that a build could not reach the server of its files. The first line says so and lists the
// alternatives.
type OfflineError struct {
	Host string
	Why  string // one line from the program that tried
	Ways string
	err  error
}

func (e *OfflineError) Error() string {
	return fmt.Sprintf("this machine does not reach %s (%s): %s\n%v", e.Host, e.Why, e.Ways, e.err)
}

func (e *OfflineError) Unwrap() error { return e.err }

// unreached matches the lines in which apt, curl and wget report that they cannot reach a host.
var unreached = regexp.MustCompile(`(?i)(?:temporary failure resolving|could not resolve(?: host)?:?|could not connect to` +
	`|unable to connect to|cannot initiate the connection to|failed to connect to|unable to resolve host address)` +
	`\s*['"‘]?([\w.-]+)`)

// offline returns an *OfflineError if the build failed because it could not reach a host; it returns other errors
// unchanged.
func offline(err error, recipe bool) error {
	e := &OfflineError{err: err, Ways: "pull from a registry in your network, or take an image that was built " +
		"elsewhere (pando image pull FROM IMAGE)"}
	if recipe {
		e.Ways = "name a mirror in your network in the recipe (mirrors:), or take an image that was built elsewhere " +
			"(pando image pull FROM IMAGE)"
	}
	var program *command.Error
	var lookup *net.DNSError
	var dial *net.OpError
	switch {
	case errors.As(err, &program):
		for _, line := range program.Tail {
			if m := unreached.FindStringSubmatch(line); m != nil {
				e.Host, e.Why = m[1], strings.TrimSpace(line)
				return e
			}
		}
	case errors.As(err, &lookup):
		e.Host, e.Why = lookup.Name, lookup.Err
		return e
	case errors.As(err, &dial) && dial.Op == "dial" && dial.Addr != nil:
		e.Host, e.Why = dial.Addr.String(), dial.Err.Error()
		return e
	}
	return err
}
