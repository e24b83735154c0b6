// Package openid lets people log in through an identity provider that speaks OpenID Connect (OIDC).
//
// The provider checks the password; it is named by its issuer, a URL. A login goes through the provider's pages and
// returns with a code, which the server exchanges for an ID token that the provider has signed. Claims are what the
// token says of a person. A grant maps a value of one claim, such as the name of a group, to a role; a person without
// a grant is refused.
//
// It owns the provider's keys and endpoints, which it caches. The server's room access calls it. It implements the
// authorization code flow with state, nonce and proof key (RFC 7636), and no other. It must never keep a token of the
// provider.
package openid
