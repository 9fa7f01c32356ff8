// Command release builds what a release consists of: programs for five platforms in archives, packages
// for Debian and for distributions with RPM, container images, bills of materials, licence notices and
// checksums. The same commit and the same release of Go give the same bytes. It is a module of its own, so
// that the delay bridge does not depend on what it is packaged with.
//
// It is run in its own folder: go run -C internal/release . -out DIR
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	os.Exit(realMain())
}

func realMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	out := flags.String("out", "../../dist", "write to this `folder`, which is replaced")
	platforms := flags.String("platforms", strings.Join(allPlatforms(), ","), "build for these `platforms`, separated by commas")
	dirty := flags.Bool("dirty", false, "take changes that are not committed, too: for a try, not for a release")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "release: unknown argument %q: see -help\n", flags.Arg(0))
		return 2
	}
	if err := build(ctx, *out, strings.Split(*platforms, ","), *dirty); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		return 1
	}
	return 0
}
