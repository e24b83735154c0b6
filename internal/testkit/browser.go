package testkit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Browser is a headless Chromium (Debian's package chromium), driven by its DevTools protocol over a pair of pipes:
// JSON messages with a zero byte after each. It has one page, and records the page's requests and errors.
type Browser struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	dir string

	mu       sync.Mutex
	last     int
	waiting  map[int]chan browserAnswer
	session  string // session of the page
	loaded   chan struct{}
	requests []string
	problems []string
}

type browserAnswer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

type browserMessage struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// StartBrowser starts Chromium with an empty profile. It resolves no host name except localhost.
func StartBrowser(ctx context.Context) (*Browser, error) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pando-browser-")
	if err != nil {
		return nil, err
	}
	b := &Browser{dir: dir, waiting: map[int]chan browserAnswer{}, loaded: make(chan struct{}, 1)}
	b.cmd = exec.Command(
		program,
		"--headless=new",
		"--no-sandbox",
		"--remote-debugging-pipe",
		"--user-data-dir="+dir,
		"--no-first-run",
		"--disable-gpu",
		"--disable-dev-shm-usage",
		"--disable-background-networking",
		"--disable-component-update",
		"--disable-sync",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
		"--force-color-profile=srgb",
		"--hide-scrollbars",
		"about:blank",
	)
	theirs, ours, err1 := os.Pipe()
	answers, out, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	b.in = ours
	b.cmd.ExtraFiles = []*os.File{theirs, out} // descriptors 3 and 4 of the browser
	b.cmd.Env = append(os.Environ(), "HOME="+dir)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	_ = errors.Join(theirs.Close(), out.Close()) // the browser has its own copies
	go b.listen(answers)
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Close ends the browser and all its processes, and removes its profile.
func (b *Browser) Close() error {
	group := -b.cmd.Process.Pid
	_ = b.in.Close()
	_ = syscall.Kill(group, syscall.SIGKILL) // it has nothing to save
	_ = b.cmd.Wait()
	for range goneTries { // its processes may write to the profile until they have ended
		if errors.Is(syscall.Kill(group, 0), syscall.ESRCH) {
			break
		}
		time.Sleep(goneLook)
	}
	return os.RemoveAll(b.dir)
}

// How long to wait for killed processes to end.
const (
	goneLook  = 10 * time.Millisecond
	goneTries = 500
)

// open attaches to the page and enables the events that are recorded.
func (b *Browser) open(ctx context.Context) error {
	var targets struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	if err := b.Call(ctx, "Target.getTargets", nil, &targets); err != nil {
		return err
	}
	for _, t := range targets.TargetInfos {
		if t.Type != "page" {
			continue
		}
		var attached struct{ SessionID string }
		if err := b.Call(ctx, "Target.attachToTarget", map[string]any{"targetId": t.TargetID, "flatten": true},
			&attached); err != nil {
			return err
		}
		b.mu.Lock()
		b.session = attached.SessionID
		b.mu.Unlock()
		var failed error
		for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
			failed = errors.Join(failed, b.Call(ctx, domain+".enable", nil, nil))
		}
		return failed
	}
	return errors.New("browser: it has no page")
}

// listen reads messages from the browser until it ends.
func (b *Browser) listen(from io.ReadCloser) {
	defer from.Close()
	s := bufio.NewScanner(from)
	s.Buffer(nil, 256<<20)
	s.Split(func(data []byte, end bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, 0); i >= 0 {
			return i + 1, data[:i], nil
		}
		if end {
			return 0, nil, io.EOF
		}
		return 0, nil, nil
	})
	for s.Scan() {
		var m struct {
			browserMessage
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(s.Bytes(), &m) != nil {
			continue
		}
		if m.ID == 0 {
			b.note(m.Method, m.Params)
			continue
		}
		b.mu.Lock()
		to := b.waiting[m.ID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		if to != nil {
			a := browserAnswer{Result: m.Result}
			if m.Error != nil {
				a.Error = &struct{ Message string }{m.Error.Message}
			}
			to <- a
		}
	}
}

// note records an event of the page.
func (b *Browser) note(method string, params json.RawMessage) {
	var p struct {
		Request          struct{ URL string }
		Type             string
		Args             []struct{ Value any }
		Entry            struct{ Level, Text, URL string }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	_ = json.Unmarshal(params, &p) // other parameters are ignored
	b.mu.Lock()
	defer b.mu.Unlock()
	switch method {
	case "Page.loadEventFired":
		select {
		case b.loaded <- struct{}{}:
		default: // no call waits
		}
	case "Network.requestWillBeSent":
		b.requests = append(b.requests, p.Request.URL)
	case "Runtime.exceptionThrown":
		b.problems = append(b.problems, p.ExceptionDetails.Text+" "+p.ExceptionDetails.Exception.Description)
	case "Runtime.consoleAPICalled":
		if p.Type == "error" || p.Type == "warning" {
			b.problems = append(b.problems, fmt.Sprint("console: ", p.Args))
		}
	case "Log.entryAdded":
		if p.Entry.Level == "error" || p.Entry.Level == "warning" {
			b.problems = append(b.problems, p.Entry.Text+" "+p.Entry.URL)
		}
	}
}

// Call sends one command of the DevTools protocol, and decodes its result into out (nil: the result is ignored).
func (b *Browser) Call(ctx context.Context, method string, params, out any) error {
	answer := make(chan browserAnswer, 1)
	b.mu.Lock()
	b.last++
	m := browserMessage{ID: b.last, SessionID: b.session, Method: method, Params: params}
	b.waiting[m.ID] = answer
	raw, err := json.Marshal(m)
	if err == nil {
		_, err = b.in.Write(append(raw, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("browser: %s: %w", method, err)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("browser: %s: %w", method, ctx.Err())
	case a := <-answer:
		if a.Error != nil {
			return fmt.Errorf("browser: %s: %s", method, a.Error.Message)
		}
		if out == nil {
			return nil
		}
		return json.Unmarshal(a.Result, out)
	}
}

// Go loads a page and returns when it is complete.
func (b *Browser) Go(ctx context.Context, url string) error {
	select {
	case <-b.loaded:
	default: // no load event is left from an earlier page
	}
	var gone struct{ ErrorText string }
	if err := b.Call(ctx, "Page.navigate", map[string]string{"url": url}, &gone); err != nil {
		return err
	}
	if gone.ErrorText != "" {
		return fmt.Errorf("browser: %s: %s", url, gone.ErrorText)
	}
	return b.Loaded(ctx)
}

// Loaded waits for a page load that was not started by Go.
func (b *Browser) Loaded(ctx context.Context) error {
	select {
	case <-b.loaded:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("browser: page not loaded: %w", ctx.Err())
	}
}

// Eval runs a script in the page and decodes its value into out. If the value is a promise it waits for the result.
func (b *Browser) Eval(ctx context.Context, script string, out any) error {
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := b.Call(
		ctx,
		"Runtime.evaluate",
		map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true},
		&r,
	)
	if err != nil {
		return err
	}
	if r.ExceptionDetails != nil {
		return fmt.Errorf("browser: %s %s", r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	}
	if out == nil || len(r.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(r.Result.Value, out)
}

// Look sets the size of the window in CSS pixels, and whether the system prefers dark pages.
func (b *Browser) Look(ctx context.Context, width, height int, dark bool) error {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	return errors.Join(
		b.Call(
			ctx,
			"Emulation.setDeviceMetricsOverride",
			map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
			nil,
		),
		b.Call(ctx, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
			{
				"name":  "prefers-color-scheme",
				"value": scheme,
			}, {"name": "prefers-reduced-motion", "value": "reduce"}}}, nil),
	)
}

// Picture returns a picture of the window as PNG.
func (b *Browser) Picture(ctx context.Context) ([]byte, error) {
	var p struct{ Data string }
	if err := b.Call(ctx, "Page.captureScreenshot", map[string]any{"format": "png"}, &p); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(p.Data)
}

// Requests returns the URLs that were requested so far.
func (b *Browser) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// Problems returns the errors and warnings of pages since the last call: of the console, the network, and the content
// security policy.
func (b *Browser) Problems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.problems
	b.problems = nil
	return out
}
