package cli

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"huolala.cn/app-operator/plugin/ui"
	"huolala.cn/app-operator/plugin/view"
)

// reader reads for the pages what the commands read.
type reader struct {
	clients   *clients
	selection *selection
	pulse     *pulse
}

// List implements ui.Reader.
func (r reader) List(ctx context.Context) (*view.List, error) {
	found, missing, err := r.clients.selected(ctx, r.selection)
	if err != nil {
		return nil, err
	}
	return view.Rows(found, missing), nil
}

// Snapshot implements ui.Reader.
func (r reader) Snapshot(ctx context.Context, kind view.Kind, namespace, name string) (*view.Snapshot, error) {
	return r.clients.snapshot(ctx, target{kind: kind, namespace: namespace, name: name}, true)
}

// gcPercent is the value of GOGC for the pages, unless the user sets the variable: a server that waits most of the time has processor time to spare
// for less memory.
const gcPercent = 40

func (r *root) uiCommand() *cobra.Command {
	var s selection
	var port int
	var quiet, readOnly bool
	cmd := &cobra.Command{
		Use: "ui", Short: "The application centre: pages for a browser on this machine", Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.connect()
			if err != nil {
				return err
			}
			if r.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent)
			}
			where := "namespace " + c.namespace
			if s.all {
				where = "all namespaces"
			}
			from := reader{c, &s, newPulse(c)}
			o := ui.Options{Reader: from, Follower: from, Context: r.contextName(), Namespaces: where, Port: port}
			if !readOnly {
				o.Actor = &actor{clients: c, rights: map[string]knownRight{}}
			}
			server, err := ui.Listen(cmd.Context(), o)
			if err != nil {
				return fmt.Errorf("listen on 127.0.0.1: %w", err)
			}
			fmt.Fprintf(r.Out, "The application centre for context %s, %s. Ctrl-C ends it, Enter prints a new code.\n", r.contextName(), where)
			code := server.NewCode()
			r.printLogin(server, code)
			if !quiet {
				remove := r.openBrowser(cmd.Context(), server, code)
				defer remove()
			}
			go func() {
				for lines := bufio.NewScanner(r.In); lines.Scan(); {
					r.printLogin(server, server.NewCode())
				}
			}()
			return server.Serve(cmd.Context())
		},
	}
	s.bind(cmd)
	cmd.Flags().IntVar(&port, "port", 0, "The port of 127.0.0.1; 0 for a free one.")
	atLeastZero(cmd, "port")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "Offer no changes.")
	cmd.Flags().BoolVar(&quiet, "no-browser", false, "Open no browser.")
	return cmd
}

// contextName is the name of the kubeconfig's context.
func (r *root) contextName() string {
	if name := *r.flags.Context; name != "" {
		return name
	}
	raw, err := r.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

func (r *root) printLogin(server *ui.Server, code string) {
	fmt.Fprintf(r.Out, "%s\nCode, good once and for 10 minutes: %s\n", server.URL(), code)
}

// openBrowser opens a file that only this user can read, and that sends the code: in an argument list, all users of the machine
// could read it. It returns what removes the file.
func (r *root) openBrowser(ctx context.Context, server *ui.Server, code string) (remove func()) {
	nothing := func() {}
	file, err := os.CreateTemp("", "happ-*.html")
	if err != nil {
		fmt.Fprintf(r.Err, "no browser is opened: %v\n", err)
		return nothing
	}
	remove = func() { _ = os.Remove(file.Name()) }
	_, err = fmt.Fprintf(file, "<!DOCTYPE html><meta charset=\"utf-8\"><title>Log in</title><form method=\"post\" action=\"%slogin\">"+
		"<input type=\"hidden\" name=\"code\" value=\"%s\"><button>Log in</button></form><script>document.forms[0].submit()</script>\n",
		html.EscapeString(server.URL()), html.EscapeString(code))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		opener := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
		if opener == nil {
			opener = []string{"xdg-open"}
		}
		opened := exec.CommandContext(ctx, opener[0], append(opener[1:], file.Name())...) //nolint:gosec // The program is one of three.
		if err = opened.Start(); err == nil {
			go func() { _ = opened.Wait() }()
		}
	}
	if err != nil {
		fmt.Fprintf(r.Err, "no browser is opened: %v\n", err)
	}
	return remove
}
