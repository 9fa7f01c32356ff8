//go:build pages

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/internal/cli"
)

// With the tag pages this program writes its man pages and completions into a folder, and does
// nothing else: what that takes is in no other build.
func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: FOLDER VERSION")
		os.Exit(cli.ExitUsage)
	}
	if err := writePages(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(cli.ExitFailed)
	}
}

func writePages(folder, version string) error {
	root := newRootCommand(&cli.App{Settings: cli.NewSettings(func(string) (string, bool) { return "", false })})
	root.DisableAutoGenTag = true
	completions := filepath.Join(folder, "completions")
	man := filepath.Join(folder, "man")
	for _, dir := range []string{completions, man} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for all to read
			return err
		}
	}
	if err := writeManPages(root, man, version); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{
		"delaybridge.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"_delaybridge":     root.GenZshCompletion,
		"delaybridge.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"delaybridge.ps1":  root.GenPowerShellCompletionWithDesc,
	} {
		if err := writeGenerated(filepath.Join(completions, name), write); err != nil {
			return err
		}
	}
	return nil
}

// writeManPages writes a page for each command. The settings that all commands take are on the first
// page alone, to which the others lead.
func writeManPages(root *cobra.Command, dir, version string) error {
	indentExamples(root)
	header := doc.GenManHeader{Section: "1", Source: "delaybridge " + version, Manual: "Delay bridge"}
	hide := func(hidden bool) {
		root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = hidden })
	}
	hide(true)
	if err := doc.GenManTree(root, &header, dir); err != nil {
		return err
	}
	hide(false)
	return writeGenerated(filepath.Join(dir, "delaybridge.1"), func(w io.Writer) error { return doc.GenMan(root, &header, w) })
}

// indentExamples has lines that are indented in a help text stay as they are: only those that are
// indented by four are more than text to the generator.
func indentExamples(cmd *cobra.Command) {
	cmd.Long = strings.ReplaceAll(cmd.Long, "\n  ", "\n      ")
	for _, sub := range cmd.Commands() {
		indentExamples(sub)
	}
}

func writeGenerated(path string, write func(io.Writer) error) error {
	file, err := os.Create(path) //nolint:gosec // the folder was given
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
