// Package private runs server programs of the distribution as child processes of this
// one: with a folder, ports and settings of their own, as the account that their
// package came with, and installed where they are missing. So whatever else runs on
// the machine is left alone.
package private
