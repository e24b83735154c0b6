package dashboard

import (
	"fmt"
	"time"

	"pando/internal/api"
	"pando/internal/trace"
)

// logsQuiet is how long a server must run, with nodes that are up, before the page says that no journal has arrived.
const logsQuiet = 15 * time.Minute

// logFindings returns problems with the journals of nodes.
func logFindings(s api.Status) []finding {
	var out []finding
	l := s.Logs
	if l.State == api.LogsMissing {
		return []finding{
			{false, "Journals of nodes are not kept: systemd-journal-remote is not installed on the server.",
				"Install the package systemd-journal-remote there and restart Pando, or start it with --logs off."},
		}
	}
	if l.State != api.LogsOn {
		return nil
	}
	if l.Full {
		out = append(out, finding{true, "The disk of the journals is full: what nodes say is not taken.",
			"Make room on the disk of the data directory. Lines wait in the nodes' memory, and are lost with a " +
				"node that reboots."})
	}
	if n := l.Uploads["malformed"] + l.Uploads["failed"]; n > 0 {
		out = append(
			out,
			finding{false, fmt.Sprintf("Refused since the server started: %s of journals.", plural(int(n), "upload")),
				"The server's log says of which nodes and why: journalctl -u pando --grep 'journal upload refused'."},
		)
	}
	up := s.Nodes[string(trace.Up)] + s.Nodes[string(trace.Degraded)]
	if up > 0 && l.Last.IsZero() && s.Time.Sub(s.Started) > logsQuiet {
		out = append(out, finding{false, fmt.Sprintf("No journal has come yet, and up: %s.", plural(up, "node")),
			"Images need the package systemd-journal-remote (pando image show says so), and nodes a boot since " +
				"this server keeps journals."})
	}
	return out
}

// logsText describes the kept journals in one line.
func logsText(l api.Logs, now time.Time) string {
	switch l.State {
	case api.LogsMissing:
		return "not kept: systemd-journal-remote is not installed"
	case api.LogsOn:
	default:
		return "not kept"
	}
	text := fmt.Sprintf(
		"%s of %s; since the start %s, %s",
		size(l.Held),
		size(l.Bound),
		plural(int(l.Entries), "line"),
		size(l.Bytes),
	)
	if n := l.Refused(); n > 0 {
		text += ", " + plural(int(n), "upload") + " refused"
	}
	return text + "; the last came: " + ago(now, l.Last)
}
