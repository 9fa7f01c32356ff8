// Package ui tests what RabbitMQ's management UI shows of the delay bridge: it signs
// in with Chromium while messages are on every path, and reads each page.
package ui
