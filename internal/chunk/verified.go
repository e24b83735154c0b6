package chunk

// Verified is the stored bytes of an object that match its ID or its FastDigest. Only Check and FastDigests make one,
// so code that takes a Verified cannot get unchecked bytes. The zero value has no object.
type Verified struct {
	id     ID
	stored []byte
}

// Check verifies stored against id. The error is a *WrongBytesError when the bytes are not the object. The
// caller must not change stored afterwards.
func Check(id ID, stored []byte) (Verified, error) {
	if err := id.Verify(stored); err != nil {
		return Verified{}, err
	}
	return Verified{id: id, stored: stored}, nil
}

// Copied is v with a copy of its stored bytes, in dst if that has room for them. The caller must not change dst
// afterwards.
func (v Verified) Copied(dst []byte) Verified {
	return Verified{id: v.id, stored: append(dst[:0], v.stored...)}
}

// ID is the object's name.
func (v Verified) ID() ID { return v.id }

// Stored is the object's bytes as they are stored and sent. They must not be changed.
func (v Verified) Stored() []byte { return v.stored }
