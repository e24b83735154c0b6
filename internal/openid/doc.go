// Package openid lets people log in through an identity provider that speaks OpenID Connect (OIDC).
//
// The words. The provider is where somebody's password is; it is named by its issuer, a URL. A login is an attempt
// that begins here, goes through the provider's own pages, and comes back with a code, which is exchanged for an ID
// token that the provider has signed. What the token says of somebody are claims. A grant is a value of one claim,
// such as the name of a group, and the role that it gives; who has no grant is refused.
//
// It is the authorization code flow with a state, a nonce and a proof key (RFC 7636), and nothing else. Tokens of
// the provider are read once and not kept.
package openid
