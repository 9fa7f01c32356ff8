package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/delaybridge/delaybridge/internal/servers"
	"github.com/delaybridge/delaybridge/internal/servers/servertest"
	"github.com/delaybridge/delaybridge/redisbridge"
	"github.com/delaybridge/delaybridge/topology"
)

// beDelaybridge in the environment makes the test program the program.
const beDelaybridge = "TEST_BINARY_IS_DELAYBRIDGE"

func TestMain(m *testing.M) {
	if os.Getenv(beDelaybridge) != "" {
		os.Exit(realMain())
	}
	servertest.Main(m)
}

// TestScripts runs every script of testdata on real servers, each in a virtual
// host and under a prefix of its own. The topology is small and not applied.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts (%v)", err)
	}
	bin := program(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			vars := scriptEnv(t)
			testscript.Run(t, testscript.Params{
				Files: []string{file},
				Setup: func(e *testscript.Env) error {
					e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
					for name, value := range vars {
						e.Setenv(name, value)
					}
					return nil
				},
				Condition: func(condition string) (bool, error) {
					if condition != "nodes-up" {
						return false, fmt.Errorf("unknown condition %s", condition)
					}
					return os.Getenv(servers.RabbitMQLayoutVariable) != string(servers.Clustered), nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"delaybridge": delaybridge,
					"broker":      onBroker,
					"bind":        onBind,
					"complete":    awaitComplete,
					"said":        awaitSaid,
					"sql":         onSQL,
				},
			})
		})
	}
}

// onSQL runs a statement on an SQLite file: sql FILE STATEMENT.
func onSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql FILE STATEMENT")
	}
	db, err := sql.Open("sqlite", "file:"+ts.MkAbs(args[0])+"?_pragma=busy_timeout(60000)")
	ts.Check(err)
	_, err = db.ExecContext(context.Background(), args[1])
	ts.Check(errors.Join(err, db.Close()))
}

// program returns a folder with the test program under the name delaybridge.
func program(t *testing.T) (dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "delaybridge")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// scriptEnv is one test's corner of the servers, as settings of the program.
func scriptEnv(t *testing.T) map[string]string {
	t.Helper()
	env := servertest.ForTest(t)
	verifyAfter(t, env)
	asStranger := func(address string) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("stranger", "s3cret")
		return u.String()
	}
	return map[string]string{
		beDelaybridge: "1",
		"GORACE":      "atexit_sleep_ms=0", // otherwise it sleeps for a second

		"DELAYBRIDGE_AMQP_URL":       env.AMQPURL,
		"DELAYBRIDGE_MANAGEMENT_URL": env.ManagementURL,
		"DELAYBRIDGE_REDIS_URL":      env.RedisURL,
		"DELAYBRIDGE_PREFIX":         env.Prefix,
		"DELAYBRIDGE_TIERS":          "1s,30s",
		"DELAYBRIDGE_LEAD":           "1s",
		"DELAYBRIDGE_SHARDS":         "1",
		"AMQP_OF_A_STRANGER":         asStranger(env.AMQPURL),
		"AMQP_OF_ANOTHER_VHOST":      strings.TrimSuffix(env.AMQPURL, env.VHost) + "%2F",
		"AMQP_WITHOUT_CONFIGURE":     withoutConfigure(t, env),
		"MANAGEMENT_OF_A_STRANGER":   asStranger(env.ManagementURL),
		"REDIS_OF_A_STRANGER":        servertest.AsRedisUser(t, env.RedisURL, "stranger", "s3cret"),
	}
}

// verifyAfter looks at what the program has left in Redis, once the test is over.
func verifyAfter(t *testing.T, env servertest.Env) {
	t.Helper()
	top, err := topology.New(topology.Config{Prefix: env.Prefix, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	park, err := redisbridge.NewPark(redisbridge.ParkConfig{Client: servertest.OpenRedis(t, env.RedisURL), Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	servertest.VerifyAfter(t, park)
}

// withoutConfigure makes a user who may do what a bridge does that puts nothing
// back, and returns the address to connect as that user.
func withoutConfigure(t *testing.T, env servertest.Env) (address string) {
	t.Helper()
	name := env.Prefix + "-user"
	env.Manage(t, http.MethodPut, "/api/users/"+name, `{"password":"s3cret","tags":""}`)
	t.Cleanup(func() { env.Manage(t, http.MethodDelete, "/api/users/"+name, "") })
	env.Manage(t, http.MethodPut, "/api/permissions/"+env.VHost+"/"+name, `{"configure":"","write":".*","read":".*"}`)
	u, err := url.Parse(env.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "s3cret")
	return u.String()
}

// delaybridge runs the program with the script's standard input. Its first
// argument is the exit code to expect. In the background 'exec delaybridge' does.
func delaybridge(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: delaybridge CODE ARGUMENT...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("delaybridge", args[1:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
