package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/testkit"
)

// mostK bounds a kernel, and an initramfs, in bytes.
const mostK = 256 << 20

// aheadRate is that of the links by which nodes load before a storm: as in those of which nobody is told, kernel and initramfs are no part of it.
const aheadRate = testkit.Rate(1e9)

// loadAhead has all nodes load before their links are as slow as in the storm. The server has them load in turns.
func (s *storm) loadAhead(ctx context.Context, nodes []*node, j job) error {
	if err := s.star.Limit(aheadRate, aheadRate); err != nil {
		return err
	}
	var loading sync.WaitGroup
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		loading.Go(func() { n.ahead, errs[i] = n.load(ctx) })
	}
	loading.Wait()
	return errors.Join(append(errs, s.star.Limit(j.Server, j.Node))...)
}

// load does what comes before /init, and says hello.
func (n *node) load(ctx context.Context) (*telling, error) {
	t := &telling{n: n, data: &http.Client{Transport: &http.Transport{DialContext: n.net.Dial, DisableKeepAlives: true}}}
	var err error
	if t.mac, err = n.macOf(); err != nil {
		return nil, err
	}
	kernel, initramfs, err := t.turn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := get(ctx, t.data, kernel, mostK); err != nil {
		return nil, err
	}
	k, err := get(ctx, t.data, initramfs, mostK)
	if err != nil {
		return nil, err
	}
	t.init = time.Now()
	if t.config, err = bootConfig(k); err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(t.config.ServerKey)
	if err != nil {
		return nil, fmt.Errorf("the server's key in boot.json: %w", err)
	}
	t.control = &http.Client{Transport: &http.Transport{DialContext: n.net.Dial, TLSClientConfig: api.PinnedTLS(key)}}
	return t, t.hello(ctx)
}

// What a script has its machine do.
var (
	kernelLine = regexp.MustCompile(`(?m)^kernel .*?(http://\S+)`)
	initrdLine = regexp.MustCompile(`(?m)^initrd .*?(http://\S+)`)
	sleepLine  = regexp.MustCompile(`(?m)^sleep (\d+)`)
)

// turn asks for the boot script until it is this node's turn.
func (t *telling) turn(ctx context.Context) (kernel, initramfs string, err error) {
	ask := t.n.server + "/boot/script?" + url.Values{"mac": {t.mac.String()}, "ip": {t.n.net.Addr.Addr().String()}}.Encode()
	for {
		script, err := get(ctx, t.data, ask, mostSmall)
		if err != nil {
			return "", "", err
		}
		k, i := kernelLine.FindSubmatch(script), initrdLine.FindSubmatch(script)
		if k != nil && i != nil {
			return string(k[1]), string(i[1]), nil
		}
		wait := sleepLine.FindSubmatch(script)
		if wait == nil || !bytes.Contains(script, []byte("turn")) {
			return "", "", fmt.Errorf("the server has this node boot nothing:\n%s", script)
		}
		seconds, _ := strconv.Atoi(string(wait[1])) // digits
		if err := pause(ctx, time.Duration(seconds)*time.Second); err != nil {
			return "", "", err
		}
	}
}

// bootConfigName is boot.json's in the trust cpio, which is the first one of an initramfs.
const bootConfigName = "pando/boot.json"

// bootConfig finds boot.json in an initramfs, as the kernel would: newc entries from the front.
func bootConfig(initramfs []byte) (cfg api.BootConfig, err error) {
	for b := initramfs; len(b) > newcHeader && string(b[:6]) == "070701"; {
		size, err1 := strconv.ParseUint(string(b[54:62]), 16, 32)
		name, err2 := strconv.ParseUint(string(b[94:102]), 16, 32)
		data := (newcHeader + name + 3) &^ 3
		end := (data + size + 3) &^ 3
		if err1 != nil || err2 != nil || name == 0 || end > uint64(len(b)) {
			break
		}
		if string(b[newcHeader:newcHeader+name-1]) == bootConfigName {
			return cfg, json.Unmarshal(b[data:data+size], &cfg)
		}
		b = b[end:]
	}
	return cfg, fmt.Errorf("the initramfs has no %s", bootConfigName)
}

const newcHeader = 110
