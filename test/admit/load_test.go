package admit

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var (
	kernelLine    = regexp.MustCompile(`(?m)^kernel .* (http://\S+/o/[0-9a-f]{64}) `)
	initramfsLine = regexp.MustCompile(`(?m)^initrd .* (http://\S+/initramfs) `)
	waitLine      = regexp.MustCompile(`(?m)^echo Pando: \S+ waits for its turn to load: place [0-9]+, about [0-9]+ s\n(?:sleep ([0-9]+)\n)?`)
)

// tally is what machines have together.
type tally struct {
	bytes, kernels    atomic.Int64
	loading, together atomic.Int64 // that load now, and did at the same time at most
	slept, asked      atomic.Int64 // seconds for which scripts made them sleep; scripts
}

// Write counts bytes.
func (y *tally) Write(b []byte) (int, error) { y.bytes.Add(int64(len(b))); return len(b), nil }

// load is a machine that does what its scripts say, as iPXE does, until it has K.
func (l *loaders) load(ctx context.Context, i int, y *tally) error {
	n := l.star.Nodes[i]
	if err := discover(n, 200, "PXEClient:Arch:00000:UNDI:002001", "iPXE"); err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
	mac := strings.ReplaceAll(l.macs[i].String(), ":", "-")
	for {
		var script strings.Builder
		if err := fetch(ctx, client, fmt.Sprintf("http://%s:8480/boot/script?mac=%s&ip=%s", subnet.Addr(), mac, n.Addr.Addr()), &script); err != nil {
			return err
		}
		y.asked.Add(1)
		text := script.String()
		if wait := waitLine.FindStringSubmatch(text); wait != nil {
			seconds, _ := strconv.ParseInt(wait[1], 10, 32) // 0 where it does not sleep
			y.slept.Add(seconds)
			time.Sleep(time.Duration(seconds) * time.Second) // what the script says: this is iPXE
			continue
		}
		kernel, initramfs := kernelLine.FindStringSubmatch(text), initramfsLine.FindStringSubmatch(text)
		if kernel == nil || initramfs == nil {
			return fmt.Errorf("no script that loads:\n%s", text)
		}
		return y.loads(ctx, client, kernel[1], initramfs[1])
	}
}

// loads fetches kernel and initramfs.
func (y *tally) loads(ctx context.Context, client *http.Client, kernel, initramfs string) error {
	now := y.loading.Add(1)
	defer y.loading.Add(-1)
	for most := y.together.Load(); now > most; most = y.together.Load() {
		if y.together.CompareAndSwap(most, now) {
			break
		}
	}
	if err := fetch(ctx, client, kernel, y); err != nil {
		return err
	}
	y.kernels.Add(1)
	return fetch(ctx, client, initramfs, y)
}

func fetch(ctx context.Context, c *http.Client, url string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	_, err = io.Copy(to, res.Body)
	return err
}
