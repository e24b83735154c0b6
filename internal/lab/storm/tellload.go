package storm

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// aheadRate is the rate of the links while nodes load before a storm. Kernel and initramfs are not part of such a
// storm.
const aheadRate = testkit.Rate(1e9)

// loadAhead makes all nodes load before their links get the slow rates of the storm. The server admits them in its own
// order.
func (s *Storm) loadAhead(ctx context.Context, nodes []*node, j job) error {
	if err := s.Star.Limit(aheadRate, aheadRate); err != nil {
		return err
	}
	var loading sync.WaitGroup
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		loading.Go(func() { n.ahead, errs[i] = n.load(ctx) })
	}
	loading.Wait()
	return errors.Join(append(errs, s.Star.Limit(j.Server, j.Node))...)
}

// load loads kernel and initramfs, and registers the node.
func (n *node) load(ctx context.Context) (*telling, error) {
	f, err := n.loader()
	if err != nil {
		return nil, err
	}
	f.Digests = false
	k, err := f.Admitted(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := f.Fetch(ctx, k.Kernel, io.Discard); err != nil {
		return nil, err
	}
	var initramfs bytes.Buffer
	if _, err := f.Fetch(ctx, k.Initramfs, &initramfs); err != nil {
		return nil, err
	}
	t, err := n.telling(f.MAC, initramfs.Bytes())
	if err != nil {
		return nil, err
	}
	return t, t.register(ctx)
}

// telling returns the node with the configuration of its initramfs, which begins with the trust cpio.
func (n *node) telling(mac fleet.MAC, initramfs []byte) (*telling, error) {
	config, err := bootConfig(initramfs)
	if err != nil {
		return nil, err
	}
	t := &telling{n: n, mac: mac, init: time.Now(), config: config}
	key, err := base64.StdEncoding.DecodeString(t.config.ServerKey)
	if err != nil {
		return nil, fmt.Errorf("the server's key in boot.json: %w", err)
	}
	t.control = &http.Client{Transport: &http.Transport{DialContext: n.Net.Dial, TLSClientConfig: api.PinnedTLS(key)}}
	return t, nil
}

// loader returns a loader that sends requests over the node's own link.
func (n *node) loader() (*testkit.Loader, error) {
	mac, err := n.macOf()
	f := testkit.NewLoader(n.Net, mac, n.Server, n.Material.Manifest.Architecture)
	f.Digests = n.loads
	return f, err
}

// bootConfigName is the path of boot.json in the trust cpio, the first archive of an initramfs.
const bootConfigName = "pando/boot.json"

// bootConfig finds boot.json in an initramfs. Like the kernel it reads newc entries from the front.
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
