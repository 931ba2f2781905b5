package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"huolala.cn/app-operator/internal/guard"
	"huolala.cn/app-operator/plugin/ui"
	"huolala.cn/app-operator/plugin/view"
)

// reader reads for the pages what the commands read.
type reader struct {
	clients   *clients
	selection *selection
	pulse     *pulse
	// row returns the row of a resource in the list.
	row func(*view.Resource) view.Row
	// hint is the end of a problem that a right solves, empty for a viewer, whose readers have no rights of their own.
	hint string
}

// ListResources implements ui.Reader.
func (r reader) ListResources(ctx context.Context) (*view.List, error) {
	found, missing, err := r.clients.listSelected(ctx, r.selection)
	if err != nil {
		return nil, err
	}
	return view.RowsBy(r.row, found, missing), nil
}

// ReadSnapshot implements ui.Reader.
func (r reader) ReadSnapshot(ctx context.Context, kind view.Kind, namespace, name string) (*view.Snapshot, error) {
	return r.clients.readSnapshot(ctx, target{kind: kind, namespace: namespace, name: name}, true)
}

// gcPercent is the value of GOGC for the pages, unless the user sets the variable: a server that waits most of the time has processor time to spare
// for less memory.
const gcPercent = 40

// uiOptions are the flags of ui.
type uiOptions struct {
	selection
	port                    int
	quiet, readOnly, viewer bool
	hosts                   []string
}

// The messages on wrong flags of ui.
const (
	messageViewerFlags = "--viewer needs --port, which the proxy in front of it is told, and --host, the names in the addresses of the pages"
	messageHostFlag    = "--host is for --viewer: other pages answer as 127.0.0.1 and localhost alone"
	messageHostName    = "--host: %q is no host name; write it without a scheme, a port and a path"
)

// checkFlags returns the error in the flags.
func (o *uiOptions) checkFlags() error {
	switch {
	case !o.viewer && len(o.hosts) > 0:
		return errors.New(messageHostFlag)
	case o.viewer && (o.port == 0 || len(o.hosts) == 0):
		return errors.New(messageViewerFlags)
	}
	for _, host := range o.hosts {
		if len(validation.IsDNS1123Subdomain(strings.ToLower(host))) > 0 && net.ParseIP(host) == nil {
			return fmt.Errorf(messageHostName, host)
		}
	}
	return nil
}

func (r *root) uiCommand() *cobra.Command {
	var o uiOptions
	cmd := &cobra.Command{
		Use: "ui", Short: "The application centre: pages for a browser on this machine", Args: takesArguments(0, 0),
		Long: "The application centre: pages for a browser on this machine, with the rights of the kubeconfig. With --viewer, pages for all readers who\n" +
			"come by a proxy that has their login: they see what this command's account may read, and change nothing.",
		PreRunE: func(*cobra.Command, []string) error { return o.checkFlags() },
		RunE:    func(cmd *cobra.Command, _ []string) error { return r.servePages(cmd.Context(), &o) },
	}
	o.bindFlags(cmd)
	cmd.Flags().IntVar(&o.port, "port", 0, "The port of 127.0.0.1; 0 for a free one.")
	atLeastZero(cmd, "port")
	cmd.Flags().BoolVar(&o.readOnly, "read-only", false, "Offer no changes.")
	cmd.Flags().BoolVar(&o.quiet, "no-browser", false, "Open no browser.")
	cmd.Flags().BoolVar(&o.viewer, "viewer", false, "Serve readers behind a proxy, without a login and without changes.")
	cmd.Flags().StringSliceVar(&o.hosts, "host", nil, "The host names in the addresses of a viewer's pages. Requests for others are refused.")
	return cmd
}

// newReader returns the reader of the pages.
func (o *uiOptions) newReader(c *clients) reader {
	c.isPage = true
	if o.viewer {
		c.most = maxShared
		return reader{c, &o.selection, newPulse(c), view.PublicRow, ""}
	}
	namespace := c.namespace
	if o.allNamespaces {
		namespace = ""
	}
	return reader{c, &o.selection, newPulse(c), view.RowOf, rightsHint(namespace)}
}

// servePages serves the pages until the context ends.
func (r *root) servePages(ctx context.Context, o *uiOptions) error {
	c, err := r.newClients()
	if err != nil {
		return err
	}
	if r.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	where := "namespace " + c.namespace
	if o.allNamespaces {
		where = "all namespaces"
	}
	from := o.newReader(c)
	options := ui.Options{Reader: from, Follower: from, Context: r.contextName(), Namespaces: where, Port: o.port, Log: r.Err}
	switch {
	case o.viewer:
		options.Viewer = &ui.Viewer{Hosts: o.hosts, Guard: r.guardViewer}
	case !o.readOnly:
		options.Actor = &actor{clients: c, rights: map[string]knownRight{}}
	}
	if !o.viewer {
		options.Logs = logReader{c}
	}
	server, err := ui.Listen(ctx, options)
	if err != nil {
		return fmt.Errorf("listen on 127.0.0.1: %w", err)
	}
	if o.viewer {
		r.printf("The viewer of %s, for %s. It listens on 127.0.0.1:%d.\n", where, strings.Join(o.hosts, ", "), o.port)
		return server.Serve(ctx)
	}
	r.printf("The application centre for context %s, %s. Ctrl-C ends it, Enter prints a new code.\n", r.contextName(), where)
	code := server.NewCode()
	r.printLogin(server, code)
	if !o.quiet {
		remove := r.openBrowser(ctx, server, code)
		defer remove()
	}
	go func() {
		for lines := bufio.NewScanner(r.In); lines.Scan(); {
			r.printLogin(server, server.NewCode())
		}
	}()
	return server.Serve(ctx)
}

// guardViewer returns a server of a handler within the limits of a viewer.
func (r *root) guardViewer(l net.Listener, handler http.Handler) (*http.Server, net.Listener) {
	return guard.New(guard.Viewer, l, nil, handler, guard.Report{Refused: func(string) {}, Log: panicLog{r.Err}})
}

// panicLog writes the panics among the lines of net/http's log. Readers cause all other lines.
type panicLog struct{ to io.Writer }

// Write implements io.Writer.
func (l panicLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("panic serving")) {
		return l.to.Write(line)
	}
	return len(line), nil
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
	r.printf("%s\nCode, good once and for 10 minutes: %s\n", server.URL(), code)
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
