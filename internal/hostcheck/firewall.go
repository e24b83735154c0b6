package hostcheck

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// firewallTime bounds a firewall tool: it answers at once or not at all.
const firewallTime = 5 * time.Second

// checkFirewall reads the rules of nftables, or of iptables where nft is not installed, and finds input chains
// that drop without letting the server's ports in. It is a heuristic on text: it never says that a firewall is
// right, only that one looks wrong.
func checkFirewall(ctx context.Context, _ Options) []Finding {
	if text, ok, err := ruleset(ctx, "nft", "list", "ruleset"); ok {
		if err != nil {
			return found(note, "run doctor as root", "cannot read the firewall's rules: %v", err)
		}
		return firewallFindings("nftables", nftBlocked(text))
	}
	if text, ok, err := ruleset(ctx, "iptables", "-S"); ok {
		if err != nil {
			return found(note, "run doctor as root", "cannot read the firewall's rules: %v", err)
		}
		return firewallFindings("iptables", iptablesBlocked(text))
	}
	return found(Fine, "", "no firewall tool is installed")
}

// ruleset runs a tool; ok is false when it is not installed.
func ruleset(ctx context.Context, tool string, args ...string) (text string, ok bool, err error) {
	path, err := exec.LookPath(tool)
	if err != nil {
		return "", false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, firewallTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).Output()
	return string(out), true, err
}

func firewallFindings(kind string, blocked []port) []Finding {
	if len(blocked) == 0 {
		return found(Fine, "", "no rule of %s keeps nodes out", kind)
	}
	var names, udp, tcp []string
	for _, p := range blocked {
		names = append(names, fmt.Sprintf("%d/%s", p.number, p.net))
		if p.net == "udp" {
			udp = append(udp, fmt.Sprint(p.number))
		} else {
			tcp = append(tcp, fmt.Sprint(p.number))
		}
	}
	var fix []string
	for _, set := range []struct {
		net   string
		ports []string
	}{{"udp", udp}, {"tcp", tcp}} {
		if len(set.ports) == 0 {
			continue
		}
		if kind == "nftables" {
			fix = append(
				fix,
				fmt.Sprintf(
					"nft add rule inet filter input %s dport { %s } accept",
					set.net,
					strings.Join(set.ports, ", "),
				),
			)
		} else {
			fix = append(fix, fmt.Sprintf("iptables -I INPUT -p %s -m multiport --dports %s -j "+
				"ACCEPT", set.net, strings.Join(set.ports, ",")))
		}
	}
	return found(
		Warning,
		"before the rule that drops: "+strings.Join(fix, "; "),
		"%s drops what comes in, and no rule lets in %s",
		kind,
		strings.Join(names, ", "),
	)
}

// nftBlocked reads `nft list ruleset`: the ports that an input chain which drops does not mention in a rule
// that accepts. Where it jumps elsewhere, a rule of any chain may let them in.
func nftBlocked(text string) []port {
	chains := nftChains(text)
	for _, chain := range chains {
		if !strings.Contains(chain[0], "type filter hook input") || !drops(chain) {
			continue
		}
		accepts := nftAccepts(chain)
		if strings.Contains(strings.Join(chain, "\n"), "jump ") {
			for _, c := range chains {
				accepts = append(accepts, nftAccepts(c)...)
			}
		}
		return missing(accepts)
	}
	return nil
}

func nftAccepts(chain []string) []string {
	var rules []string
	for _, line := range chain {
		if strings.Contains(line, "accept") && !strings.Contains(line, "policy") {
			rules = append(rules, line)
		}
	}
	return rules
}

// missing are the server's ports that no rule mentions.
func missing(rules []string) []port {
	var out []port
	for _, p := range serverPorts {
		if !mentioned(rules, p) {
			out = append(out, p)
		}
	}
	return out
}

// nftChains returns the lines of each chain that has any.
func nftChains(text string) [][]string {
	var chains [][]string
	var chain []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "chain "):
			chain = []string{}
		case line == "}" && len(chain) > 0:
			chains, chain = append(chains, chain), nil
		case chain != nil && line != "":
			chain = append(chain, line)
		}
	}
	return chains
}

// drops reports whether a chain drops what no rule accepts: by its policy, or by a last rule without a match.
func drops(chain []string) bool {
	last := chain[len(chain)-1]
	for _, verdict := range []string{"drop", "reject"} {
		if strings.HasPrefix(last, verdict) || strings.HasPrefix(last, "counter") && strings.Contains(last, verdict) {
			return true
		}
	}
	return strings.Contains(chain[0], "policy drop")
}

// mentioned reports whether one of the rules lets a port in: it names the port, or a range around it, or
// accepts everything from somewhere (an interface or a network), which this cannot judge and takes for right.
func mentioned(rules []string, p port) bool {
	for _, r := range rules {
		if !strings.Contains(r, "port") {
			if strings.Contains(r, "saddr") || strings.Contains(r, "iif") && !strings.Contains(r, `"lo"`) ||
				r == "accept" {
				return true
			}
			continue
		}
		if strings.Contains(r, p.net+" ") || strings.Contains(r, "th dport") || strings.Contains(r, "-p "+p.net) {
			if portIn(r, p.number) {
				return true
			}
		}
	}
	return false
}

var portRange = regexp.MustCompile(`\b(\d{1,5})(?:[-:](\d{1,5}))?\b`)

var portNames = map[uint16]string{67: "bootps", 69: "tftp"}

func portIn(rule string, n uint16) bool {
	if name := portNames[n]; name != "" && strings.Contains(rule, name) {
		return true
	}
	for _, m := range portRange.FindAllStringSubmatch(rule, -1) {
		var from, to int
		fmt.Sscan(m[1], &from)
		if to = from; m[2] != "" {
			fmt.Sscan(m[2], &to)
		}
		if from <= int(n) && int(n) <= to {
			return true
		}
	}
	return false
}

// iptablesBlocked reads `iptables -S`, as nftBlocked reads nftables.
func iptablesBlocked(text string) []port {
	var accepts, others, input []string
	policyDrops, jumps := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		accept := strings.Contains(line, "-j ACCEPT")
		switch {
		case line == "-P INPUT DROP":
			policyDrops = true
		case strings.HasPrefix(line, "-A INPUT"):
			input = append(input, line)
			jumps = jumps || !accept && !strings.Contains(line, "-j DROP") && !strings.Contains(line, "-j REJECT")
			if accept {
				accepts = append(accepts, iptablesWords.Replace(line))
			}
		case accept && !strings.HasPrefix(line, "-A FORWARD") && !strings.HasPrefix(line, "-A OUTPUT"):
			others = append(others, iptablesWords.Replace(line))
		}
	}
	if jumps {
		accepts = append(accepts, others...)
	}
	if n := len(input); n > 0 && !policyDrops {
		policyDrops = strings.HasPrefix(input[n-1], "-A INPUT -j DROP") ||
			strings.HasPrefix(input[n-1], "-A INPUT -j REJECT")
	}
	if !policyDrops {
		return nil
	}
	return missing(accepts)
}

// iptablesWords turns the words of iptables into those that mentioned looks for.
var iptablesWords = strings.NewReplacer("-i lo ", `iif "lo" `, "-i ", "iif ", "-s ", "saddr ")
