package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/url"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
)

// StoredVersion is a version as a store keeps it, without its objects.
type StoredVersion struct {
	Manifest   []byte            `json:"manifest"`  // the signed bytes
	Signature  []byte            `json:"signature"` // minisign
	Provenance []byte            `json:"provenance,omitempty"`
	Packs      []bootpack.Record `json:"packs,omitempty"` // its boot packs
}

// VersionPut is the body of POST /v1/store/versions.
type VersionPut struct {
	StoredVersion
	DryRun bool `json:"dry_run,omitempty"` // only check whether the signature is by a trusted key
}

// ObjectSize is an object and its size in bytes.
type ObjectSize struct {
	ID   chunk.ID `json:"id"`
	Size int64    `json:"size"`
}

// ObjectList is the body of POST /v1/store/missing, and its answer.
type ObjectList struct {
	Objects []ObjectSize `json:"objects"`
}

// Limits of one request: entries of an ObjectList, and bytes of objects. A single larger object is allowed.
const (
	MaxObjectList = 5000
	MaxObjects    = 4 << 20
	MaxObject     = 512 << 20
)

// ObjectsType is the media type of a sequence of objects. Each object has its length before it, in four bytes,
// big-endian.
const ObjectsType = "application/vnd.pando.objects"

// StoredVersion gets a version of the store without its objects.
func (c *Client) StoredVersion(ctx context.Context, v fleet.Digest) (StoredVersion, error) {
	return get[StoredVersion](ctx, c, "/v1/store/versions/"+url.PathEscape(string(v)), nil)
}

// PutVersion stores a version whose objects are stored already. It has no name until AddVersion.
func (c *Client) PutVersion(ctx context.Context, v VersionPut) error {
	return c.call(ctx, "POST", "/v1/store/versions", nil, v, nil)
}

// MissingObjects reports which objects the store lacks. Garbage collection keeps the present ones for a day.
func (c *Client) MissingObjects(ctx context.Context, l ObjectList) (ObjectList, error) {
	return ask[ObjectList](ctx, c, "POST", "/v1/store/missing", l)
}

// Object returns the stored bytes of an object, verified.
func (c *Client) Object(ctx context.Context, id chunk.ID) ([]byte, error) {
	res, err := c.send(ctx, "GET", "/v1/store/objects/"+id.Name(), nil, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, MaxObject))
	if err != nil {
		return nil, c.unreachable(ctx, fmt.Errorf("get object %s: %w", id, err))
	}
	return b, id.Verify(b)
}

// AddObjects stores objects.
func (c *Client) AddObjects(ctx context.Context, objects [][]byte) error {
	var body bytes.Buffer
	for _, o := range objects {
		body.Write(binary.BigEndian.AppendUint32(nil, uint32(len(o))))
		body.Write(o)
	}
	res, err := c.sendBytes(ctx, "POST", "/v1/store/objects", nil, ObjectsType, &body)
	if err != nil {
		return err
	}
	return res.Body.Close()
}
