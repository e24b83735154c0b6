package testkit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
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

	Digests bool // it verifies digests, as iPXE 2.0 does under UEFI

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
	Verified          *VerifiedScript // nil: nothing is verified, and all comes from the server
}

// VerifiedScript is a script that verifies kernel and initramfs.
type VerifiedScript struct {
	Boot  string      // base URL of the boot's files
	From  [2][]string // URLs of kernel and initramfs, in the order in which they are tried; the server's are the last
	Keeps bool        // the node gets both as a file
}

var (
	kernelLine    = regexp.MustCompile(`(?m)^kernel .* (http://\S+/o/[0-9a-f]{64}) `)
	trustLine     = regexp.MustCompile(`(?m)^initrd --name trust (http://\S+)/trust `)
	verifiedLine  = regexp.MustCompile(`(?m)^imgfetch --name (BOOT_IMAGE=linux|initramfs) .*?(http://\S+/o/[0-9a-f]{64}) `)
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
	if boot := trustLine.FindStringSubmatch(text); boot != nil {
		v := &VerifiedScript{Boot: boot[1], Keeps: strings.Contains(text, boot[1]+"/head ")}
		for _, m := range verifiedLine.FindAllStringSubmatch(text, -1) {
			part := 0
			if m[1] == "initramfs" {
				part = 1
			}
			v.From[part] = append(v.From[part], m[2])
		}
		if len(v.From[0]) == 0 || len(v.From[1]) == 0 {
			return Script{}, fmt.Errorf("no script that loads:\n%s", text)
		}
		return Script{Kernel: v.From[0][len(v.From[0])-1], Initramfs: v.From[1][len(v.From[1])-1], Verified: v}, nil
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
	digests := netboot.Lacks
	if l.Digests {
		digests = netboot.Has
	}
	return url.Values{
		"sha256":   {string(digests)},
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

// Loaded is how a machine loaded a verified script.
type Loaded struct {
	Trust   []byte // the trust cpio
	Bytes   int64  // of kernel and initramfs
	From    [2]int // index in VerifiedScript.From
	Refused int    // answers that were no such object, and that did not come
}

// stalled is how long a source may send nothing, as scripts tell iPXE.
const stalled = 3 * time.Second

// Load fetches what a verified script names, verifies it, and writes kernel and initramfs to a file. It reports the
// sources to the server, as the script does.
func (l *Loader) Load(ctx context.Context, v *VerifiedScript, to *os.File) (out Loaded, err error) {
	var trust bytes.Buffer
	if _, err := l.Fetch(ctx, v.Boot+"/trust", &trust); err != nil {
		return out, err
	}
	if v.Keeps {
		if _, err := l.Fetch(ctx, v.Boot+"/head", io.Discard); err != nil {
			return out, err
		}
	}
	out.Trust = trust.Bytes()
	bad := map[int]bool{}
	for part, name := range []string{"k", "i"} {
		refused, from := "", "s"
		for i, u := range v.From[part] {
			last := i == len(v.From[part])-1
			if bad[i] && !last {
				continue
			}
			n, err := l.fetchStalling(ctx, u, io.NewOffsetWriter(to, out.Bytes), last)
			if err == nil {
				out.From[part] = i
				out.Bytes += n
				if !last {
					from = strconv.Itoa(i)
				}
				break
			}
			if last || ctx.Err() != nil {
				return out, err
			}
			bad[i], refused = true, refused+strconv.Itoa(i)
			out.Refused++
		}
		report := fmt.Sprintf("%s/sources?part=%s&from=%s&refused=%s", v.Boot, name, from, refused)
		if res, err := l.client.Get(report); err == nil { // without an answer the boot goes on
			res.Body.Close()
		}
	}
	return out, nil
}

// fetchStalling is Fetch with an end for a source that sends nothing for a while, unless it is the last one.
func (l *Loader) fetchStalling(ctx context.Context, from string, to io.Writer, last bool) (int64, error) {
	if last {
		return l.Fetch(ctx, from, to)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(stalled, func() { cancel(errors.New("it sends nothing")) })
	defer timer.Stop()
	return l.Fetch(ctx, from, &progress{to, timer})
}

// progress restarts a timer with each write.
type progress struct {
	io.Writer
	timer *time.Timer
}

func (p *progress) Write(b []byte) (int, error) {
	p.timer.Reset(stalled)
	return p.Writer.Write(b)
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
