package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"

	"pando/internal/fleet"
	"pando/internal/image"
)

// fetchManifest gets the description of the assigned version. Neither digest nor signature depends on who
// sends it, so any server will do.
func (m *machine) fetchManifest(ctx context.Context) (string, error) {
	if m.isOffline() {
		return m.offlineManifest(m.offline), nil
	}
	client := startClient()
	defer client.CloseIdleConnections()
	var errs []error
	sources := m.startSources(ctx, client)
	for i, source := range sources {
		man, err := m.manifestFrom(ctx, client, source)
		if err == nil {
			m.manifest, m.sources = man, sources[i:]
			pack := m.usePack(ctx, client, sources[i:])
			return fmt.Sprintf(
				"%s, %d MB root, signature good%s",
				m.assigned().Version.Short(),
				man.Root.Size/1e6,
				pack,
			), nil
		}
		if source.peer {
			m.peerFailed(source, err)
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %w", source.url, err))
	}
	return "", &Problem{
		Err:   errors.Join(errs...),
		Tried: strings.Join(m.assigned().Servers, ", "),
		Hint:  m.manifestHint(errors.Join(errs...)),
	}
}

// trust is whose signatures count: those of the trust cpio but for the ones that the assignment revokes.
func (m *machine) trust() image.Trust {
	return image.Trust{Keys: m.config.TrustKeys, Revoked: m.assigned().RevokedKeys}
}

// packKeys are the keys that may sign the boot pack of a version.
func (m *machine) packKeys(man image.Manifest) []string {
	t := m.trust()
	if man.PackKey != "" {
		t.Keys = []string{man.PackKey}
	}
	return t.Accepted()
}

func (m *machine) manifestHint(all error) string {
	var answer *statusError
	switch {
	case errors.Is(all, image.ErrRevoked):
		return "a revoked key signed this version and no other did: give the group another version, or build it again"
	case errors.Is(all, image.ErrWrongSignature) && m.config.Medium != "":
		return "this version is not signed by a key that this boot medium trusts; it may be older than the site's " +
			"keys: make it anew with `pando media create`"
	case errors.Is(all, image.ErrWrongSignature), errors.Is(all, image.ErrUnsigned):
		return "this version is not signed by a key that the site trusts: `pando image list`, build it on this " +
			"server or add its key"
	case errors.As(all, &answer) && answer.code == http.StatusNotFound:
		return "the server has lost this version: build or copy it again; the node takes it as soon as it is there"
	}
	return ""
}

func (m *machine) manifestFrom(ctx context.Context, client *http.Client, from startSource) (image.Manifest, error) {
	ctx, cancel := from.bound(ctx)
	defer cancel()
	man, data, signature, err := signedManifest(ctx, client, from.url, m.assigned().Version, m.trust())
	if err != nil {
		return man, err
	}
	if man.IsExtension() {
		return man, errors.New("the version is an extension, which boots nothing")
	}
	if man.Architecture != runtime.GOARCH {
		return man, fmt.Errorf("the version is for %s, this machine is %s", man.Architecture, runtime.GOARCH)
	}
	m.manifestBytes, m.manifestSignature = data, signature
	return man, nil
}

// signedManifest gets the manifest of a version, and its signature, which must be of a key that is trusted.
func signedManifest(
	ctx context.Context,
	client *http.Client,
	server string,
	version fleet.Digest,
	trust image.Trust,
) (man image.Manifest, data, signature []byte, err error) {
	url := strings.TrimSuffix(server, "/") + "/m/" + strings.TrimPrefix(string(version), "sha256:")
	if data, err = get(ctx, client, url, image.MaxManifest); err != nil {
		return man, nil, nil, err
	}
	if got := image.Version(data); got != version {
		return man, nil, nil, &wrongFileError{got, version}
	}
	if signature, err = get(ctx, client, url+".minisig", image.MaxSignature); err != nil {
		return man, nil, nil, fmt.Errorf("signature: %w", err)
	}
	man, err = trust.Verify(data, signature)
	return man, data, signature, err
}

// wrongFileError is a manifest that is not of the version that was asked for.
type wrongFileError struct{ got, want fleet.Digest }

func (e *wrongFileError) Error() string {
	return fmt.Sprintf("manifest has digest %s, assigned is %s", e.got.Short(), e.want.Short())
}

// statusError is an answer that is not the file.
type statusError struct {
	url, status string
	code        int
}

func (e *statusError) Error() string { return "GET " + e.url + ": " + e.status }

// get fetches a small file whole; more than limit bytes are an error.
func get(ctx context.Context, client *http.Client, url string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{url, resp.Status, resp.StatusCode}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("GET %s: more than %d bytes", url, limit)
	}
	return data, err
}
