package migration

import (
	"net/url"
	"strings"
)

// vhost is the virtual host in commands; a file of one need not name it.
func (p *planner) vhost() string {
	if p.VHost == "" {
		return "VHOST"
	}
	return p.VHost
}

// api is an address of the management API below the virtual host.
func (p *planner) api(what string, below ...string) string {
	parts := []string{strings.TrimRight(p.management, "/"), "api", what, escape(p.vhost())}
	for _, part := range below {
		parts = append(parts, escape(part))
	}
	return strings.Join(parts, "/")
}

func escape(segment string) string { return url.PathEscape(segment) }

// quote writes a routing key as the management API does in a properties key
// (rabbit_mgmt_format.erl), where ~ separates it from the arguments.
func quote(key string) string { return strings.ReplaceAll(url.QueryEscape(key), "~", "%7E") }
