package registry

import (
	"errors"
	"fmt"
	"time"

	"pando/internal/fleet"
)

// User is a person who logs in with a password, or by OIDC login.
type User struct {
	Name    string
	Role    fleet.Role
	Hash    string // of the password, by identity.HashPassword; "": there is none
	Issuer  string // OpenID provider of the user; "": the user has a password
	Subject string // the user's ID at the provider, which is never given to another person
	Created time.Time
	Used    time.Time // last login; zero: never
}

const userColumns = `SELECT name, role, hash, issuer, subject, created, used FROM users`

// Users returns all users by name.
func (t *Tx) Users() ([]User, error) {
	users, err := list(t, scanUser, userColumns+` ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	return users, nil
}

// User returns a user by name, or ErrNotFound.
func (t *Tx) User(name string) (User, error) {
	return one(t.row(userColumns+` WHERE name = ?`, name), scanUser, "user", name)
}

// UserBySubject returns the user with an ID at an OpenID provider, or ErrNotFound.
func (t *Tx) UserBySubject(issuer, subject string) (User, error) {
	if issuer == "" {
		return User{}, notFound("user", subject)
	}
	return one(t.row(userColumns+` WHERE issuer = ? AND subject = ?`, issuer, subject), scanUser, "user", subject)
}

// CreateUser adds a user, or returns ErrExists.
func (t *Tx) CreateUser(u User) error {
	if err := fleet.ValidPerson(u.Name); err != nil {
		return err
	}
	if _, err := t.User(u.Name); !errors.Is(err, ErrNotFound) {
		return taken(err, "user", u.Name)
	}
	_, err := t.exec(
		`INSERT INTO users (name, role, hash, issuer, subject, created, used) VALUES (?, ?, ?, ?, ?, ?, ?)`, u.Name,
		string(u.Role), u.Hash, u.Issuer, u.Subject, stamp(u.Created), stamp(u.Used),
	)
	if err != nil {
		return fmt.Errorf("create user %s: %w", u.Name, err)
	}
	return nil
}

// SetUser writes role, hash and last login of a user, or returns ErrNotFound.
func (t *Tx) SetUser(u User) error {
	n, err := t.exec(
		`UPDATE users SET role = ?, hash = ?, used = ? WHERE name = ?`, string(u.Role), u.Hash, stamp(u.Used),
		u.Name,
	)
	if err != nil {
		return fmt.Errorf("set user %s: %w", u.Name, err)
	}
	if n == 0 {
		return notFound("user", u.Name)
	}
	return nil
}

// DeleteUser removes a user, or returns ErrNotFound.
func (t *Tx) DeleteUser(name string) error {
	n, err := t.exec(`DELETE FROM users WHERE name = ?`, name)
	if err != nil {
		return fmt.Errorf("delete user %s: %w", name, err)
	}
	if n == 0 {
		return notFound("user", name)
	}
	return nil
}

func scanUser(s scanner) (User, error) {
	var u User
	var role string
	var created, used int64
	err := s.Scan(&u.Name, &role, &u.Hash, &u.Issuer, &u.Subject, &created, &used)
	u.Role, u.Created, u.Used = fleet.Role(role), unstamp(created), unstamp(used)
	return u, err
}
