package testkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"pando/internal/fleet"
	"pando/internal/netboot"
)

// Loader does what iPXE does in a boot, without a machine: it requests its boot script, obeys it including its sleeps,
// and fetches kernel and initramfs over separate connections. It names no NIC, so it always gets the drivers for all
// NICs.
type Loader struct {
	MAC    fleet.MAC
	Addr   netip.Addr
	Server string // base URL of the image port (8480)
	Arch   string // architecture of the image, as in GOARCH

	Asked int           // number of script requests
	Slept time.Duration // total time that scripts told it to sleep

	client *http.Client
}

// NewLoader returns the loader of a machine in a namespace.
func NewLoader(n *Net, mac fleet.MAC, server, arch string) *Loader {
	return &Loader{MAC: mac, Addr: n.Addr.Addr(), Server: server, Arch: arch,
		client: &http.Client{Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}}
}

// Script is the content of a boot script: URLs to load or, before admission, a time to sleep.
type Script struct {
	Kernel, Initramfs string // "": not admitted yet
	Sleep             time.Duration
}

var (
	kernelLine    = regexp.MustCompile(`(?m)^kernel .* (http://\S+/o/[0-9a-f]{64}) `)
	initramfsLine = regexp.MustCompile(`(?m)^initrd .* (http://\S+/initramfs) `)
	queuedLine    = regexp.MustCompile(
		`(?m)^echo Pando: \S+ waits for its turn to load: place [0-9]+, about [0-9]+ s\n(?:sleep ([0-9]+)\n)?`,
	)
)

// ReadScript parses the boot script of a machine that is admitted or waits. It ignores the sleep in the branch for
// errors.
func ReadScript(text string) (Script, error) {
	if wait := queuedLine.FindStringSubmatch(text); wait != nil {
		seconds, _ := strconv.ParseInt(wait[1], 10, 32) // 0 without a sleep
		return Script{Sleep: time.Duration(seconds) * time.Second}, nil
	}
	kernel, initramfs := kernelLine.FindStringSubmatch(text), initramfsLine.FindStringSubmatch(text)
	if kernel == nil || initramfs == nil {
		return Script{}, fmt.Errorf("no script that loads:\n%s", text)
	}
	return Script{Kernel: kernel[1], Initramfs: initramfs[1]}, nil
}

// Admitted requests scripts until the machine is admitted.
func (l *Loader) Admitted(ctx context.Context) (Script, error) {
	for {
		var text strings.Builder
		if _, err := l.Fetch(ctx, l.Server+netboot.ScriptPath+"?"+l.query(), &text); err != nil {
			return Script{}, err
		}
		l.Asked++
		s, err := ReadScript(text.String())
		if err != nil || s.Kernel != "" {
			return s, err
		}
		l.Slept += s.Sleep
		select {
		case <-time.After(s.Sleep):
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
	}
}

// query returns the parameters of a script request. The UUID is derived from the MAC.
func (l *Loader) query() string {
	mac := strings.ReplaceAll(l.MAC.String(), ":", "-")
	arch := map[string]string{"amd64": "x86_64"}[l.Arch]
	if arch == "" {
		arch = l.Arch
	}
	return url.Values{
		"mac":      {mac},
		"ip":       {l.Addr.String()},
		"uuid":     {"70616e64-6f00-4000-8000-" + strings.ReplaceAll(mac, "-", "")},
		"arch":     {arch},
		"platform": {"efi"},
	}.Encode()
}

// Fetch writes the content of a URL to `to`. If the URL names an object it verifies the content.
func (l *Loader) Fetch(ctx context.Context, from string, to io.Writer) (int64, error) {
	res, err := l.ask(ctx, http.MethodGet, from)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), res.Body)
	if _, name, object := strings.Cut(from, "/o/"); err == nil && object && name != hex.EncodeToString(sum.Sum(nil)) {
		err = fmt.Errorf("%s: it is another object", from)
	}
	return n, err
}

// Size returns the size of a URL's content in bytes. It returns when the server has the content ready.
func (l *Loader) Size(ctx context.Context, of string) (int64, error) {
	res, err := l.ask(ctx, http.MethodHead, of)
	if err != nil {
		return 0, err
	}
	return res.ContentLength, res.Body.Close()
}

func (l *Loader) ask(ctx context.Context, method, of string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, of, nil)
	if err != nil {
		return nil, err
	}
	res, err := l.client.Do(req)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("%s: %s", of, res.Status), res.Body.Close())
	}
	return res, err
}
