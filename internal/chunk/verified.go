package chunk

// Verified has the stored bytes of an object that match its ID or its FastDigest. Only Check and FastDigests make
// one, so code that takes a Verified cannot get unchecked bytes. The zero value has no object.
type Verified struct {
	id     ID
	stored []byte
}

// Check verifies stored against id. The error is a *WrongBytesError if the bytes are not the object. The caller must
// not change stored afterwards.
func Check(id ID, stored []byte) (Verified, error) {
	if err := id.Verify(stored); err != nil {
		return Verified{}, err
	}
	return Verified{id: id, stored: stored}, nil
}

// Copied returns v with a copy of its stored bytes, in dst if that has enough capacity. The caller must not change
// dst afterwards.
func (v Verified) Copied(dst []byte) Verified {
	return Verified{id: v.id, stored: append(dst[:0], v.stored...)}
}

// ID returns the object's name.
func (v Verified) ID() ID { return v.id }

// Stored returns the object's bytes as they are stored and sent. The caller must not change them.
func (v Verified) Stored() []byte { return v.stored }
