package ui

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"huolala.cn/app-operator/plugin/view"
)

// Reader reads the cluster as the user.
type Reader interface {
	// ListResources returns all resources that the pages are of.
	ListResources(ctx context.Context) (*view.List, error)
	// ReadSnapshot returns one resource with the objects below it, and its events.
	ReadSnapshot(ctx context.Context, kind view.Kind, namespace, name string) (*view.Snapshot, error)
}

// Options are the sources and settings of the pages.
type Options struct {
	Reader Reader
	// Follower sends changes to the pages while they are open.
	Follower Follower
	// Actor makes the changes that the pages offer; nil for pages that only read.
	Actor Actor
	// Logs reads logs; nil for pages without logs, such as the pages of a viewer.
	Logs LogReader
	// Context is the name of the kubeconfig's context, Namespaces where resources are listed, in words.
	Context, Namespaces string
	// Port is the port of 127.0.0.1, 0 for a free one.
	Port int
	// Viewer are the settings of a viewer, nil for pages of one user, who logs in with a code.
	Viewer *Viewer
	// Log receives the panics of reads; nil for none.
	Log io.Writer
	// Now is the present time, time.Now if it is nil.
	Now func() time.Time
	// Wait is how long a page waits for the API server, answerTime if it is 0. ActionWait is how long the answer to a form does, actionTime if it is 0.
	Wait, ActionWait time.Duration
}

// Server serves the pages.
type Server struct {
	options  Options
	listener net.Listener
	port     string
	// id is the folder of all pages, empty in a viewer. It keeps the cookie from servers on other ports, and is no secret.
	id string
	// current returns the state of a topic for a page. The pages of a viewer share each read.
	current  func(context.Context, Topic) (content, error)
	sessions *sessions
	hub      *hub
	// end ends all that is followed.
	end     context.CancelFunc
	handler http.Handler
	routes  []route
	last    atomic.Int64
}

// route is the handler of one method on one path.
type route struct {
	method, path string
	// open is true if no session is needed.
	open   bool
	handle http.HandlerFunc
}

const (
	// outside is the path of the login and its files, for a browser that does not know the folder of the pages.
	outside = "/"
	// idleLife is how long the server runs without a login and without a request of a session.
	idleLife = 12 * time.Hour
	maxBody  = 64 << 10
	// requestTime and responseTime are how long a request may take to arrive, and its answer.
	requestTime, responseTime = 10 * time.Second, time.Minute
	// lastTime is how long the streams have to report the end of the server to their pages.
	lastTime = 3 * time.Second
	// policy lets a page load the style sheet and the program from here, follow a stream of events, and send forms, and nothing else. Only
	// the one policy "happ" of the program makes markup of texts.
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; " +
		"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types happ"
)

// Listen returns a server that listens on 127.0.0.1, and on no other address. Its watches end with the context.
func Listen(ctx context.Context, o Options) (*Server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	o.Wait, o.ActionWait = cmp.Or(o.Wait, answerTime), cmp.Or(o.ActionWait, actionTime)
	o.Reader = boundedReader{o.Reader}
	s := &Server{options: o, listener: listener}
	s.hub = &hub{options: &s.options, topics: map[Topic]*followed{}, limits: hubLimits{streams: maxStreams, tabs: maxTabs}}
	s.hub.ctx, s.end = context.WithCancel(ctx)
	s.sessions = &sessions{now: o.Now, all: map[[sha256.Size]byte]*session{}}
	if _, s.port, err = net.SplitHostPort(listener.Addr().String()); err != nil {
		return nil, err
	}
	if o.Viewer != nil {
		s.hub.limits = hubLimits{viewerStreams, viewerTabs, viewerTopics, viewerBytes, newRate(s.hub.ctx)} //nolint:contextcheck // It ends with the hub.
		s.options.Reader, s.current = newPublicReader(o.Reader), s.hub.currentContent
		s.routes = s.pageRoutes()
		s.handler = withHeaders(s.forViewer(s.muxOf("/", s.noPage)))
		return s, nil
	}
	s.id, s.current, s.listener = randomHex(16), s.readTopic, limitConnections(listener, maxConnections)
	s.routes = append(s.pageRoutes(), s.sessionRoutes()...)
	mux := s.muxOf("/"+s.id+"/", s.serveOtherPath)
	// Outside of the folder, nothing names it before the login.
	mux.HandleFunc("GET "+outside+"style.css", serveAsset("style.css", "text/css"))
	mux.HandleFunc("POST "+outside+"login", s.guardRoute(route{open: true, handle: s.answerLogin}))
	s.handler = withHeaders(s.checkHost(mux))
	return s, nil
}

// pageRoutes returns the routes of the pages that only read.
func (s *Server) pageRoutes() []route {
	return []route{
		{http.MethodGet, "{$}", false, s.listPage},
		{http.MethodGet, "events", false, s.listEvents},
		{http.MethodGet, "{kind}/{namespace}/{name}", false, s.resourcePage},
		{http.MethodGet, "{kind}/{namespace}/{name}/events", false, s.resourceEvents},
		{http.MethodGet, "style.css", true, serveAsset("style.css", "text/css")},
		{http.MethodGet, "happ.js", true, serveAsset("happ.js", "text/javascript")},
		{http.MethodGet, "idiomorph.js", true, serveAsset("vendor/idiomorph.js", "text/javascript")},
	}
}

// sessionRoutes returns the routes of a user with a session: the login, and the logs and the actions if there are any.
func (s *Server) sessionRoutes() []route {
	routes := []route{
		{http.MethodPost, "logout", false, s.answerLogout},
		{http.MethodGet, "login", true, s.loginPage},
		{http.MethodPost, "login", true, s.answerLogin},
	}
	if s.options.Logs != nil {
		routes = append(routes, route{http.MethodGet, "{kind}/{namespace}/{name}/logs", false, s.logsPage})
	}
	if s.options.Actor == nil {
		return routes
	}
	const path = "{kind}/{namespace}/{name}/{action}"
	return append(routes, route{http.MethodGet, path, false, s.actionPage}, route{http.MethodPost, path, false, s.performAction},
		route{http.MethodGet, "plan", false, s.planPage}, route{http.MethodPost, "plan", false, s.showPlan})
}

// muxOf returns the handler of the routes below a folder, and of all other paths.
func (s *Server) muxOf(folder string, elsewhere http.HandlerFunc) *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range s.routes {
		r.handle = s.boundPage(r)
		if s.options.Viewer == nil {
			r.handle = s.guardRoute(r)
		}
		mux.HandleFunc(r.method+" "+folder+r.path, r.handle)
	}
	mux.HandleFunc("/", elsewhere)
	return mux
}

// URL is the address of the first page.
func (s *Server) URL() string { return "http://127.0.0.1:" + s.port + s.pagePath("") }

// NewCode returns a code for the login that is good once.
func (s *Server) NewCode() string { return s.sessions.newCode() }

// Serve serves until the context ends; pages of one user also end when no request of a session has come for 12 hours.
func (s *Server) Serve(ctx context.Context) error {
	server, listener := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: requestTime, WriteTimeout: responseTime,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}, s.listener
	if s.options.Viewer != nil {
		server, listener = s.options.Viewer.Guard(s.listener, s.handler)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.noteUse()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				s.end() // The streams say so.
				last, end := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
				_ = server.Shutdown(last)
				end()
				_ = server.Close()
				return
			case <-tick.C:
				if s.options.Viewer == nil && s.options.Now().Sub(time.Unix(0, s.last.Load())) > idleLife {
					stop()
				}
			}
		}
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-closed
	return nil
}

// withHeaders sets the headers that all answers have.
func withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Permissions-Policy", "")
		next.ServeHTTP(w, r)
	})
}

// noteUse notes the time of a login, or of a request of a session. Other programs of the machine can send other requests for ever.
func (s *Server) noteUse() { s.last.Store(s.options.Now().UnixNano()) }

// checkHost refuses requests under another name, as a page of another site sends them once its name leads here.
func (s *Server) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if s.port == "80" { // Browsers leave it out.
			host = strings.TrimSuffix(host, ":80") + ":80"
		}
		if host != "127.0.0.1:"+s.port && host != "localhost:"+s.port {
			http.Error(w, "This server answers only as 127.0.0.1 and localhost.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) cookieName() string { return "happ-" + s.port }

// sessionSecret returns the secret of the request's session, and whether there is one.
func (s *Server) sessionSecret(r *http.Request) (string, bool) {
	cookie, err := r.Cookie(s.cookieName())
	if err != nil || !s.sessions.isValid(cookie.Value) {
		return "", false
	}
	return cookie.Value, true
}

// readerOf identifies the browser of a session, or the reader whom the proxy of a viewer names. It is empty where the proxy names nobody.
func (s *Server) readerOf(r *http.Request) string {
	if s.options.Viewer != nil {
		return readerIn(r.Context())
	}
	secret, _ := s.sessionSecret(r)
	return formToken(secret)
}

// guardRoute lets a request through to its route if it may come.
func (s *Server) guardRoute(route route) http.HandlerFunc {
	origins := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		write := r.Method != http.MethodGet && r.Method != http.MethodHead
		if write && !s.checkForm(w, r) {
			return
		}
		if route.open {
			route.handle(w, r)
			return
		}
		secret, ok := s.sessionSecret(r)
		if !ok {
			s.showLogin(w, r, http.StatusUnauthorized, withQuery(strings.TrimPrefix(r.URL.Path, s.pagePath("")), r), "")
			return
		}
		s.noteUse()
		token := formToken(secret)
		if write && (origins.Check(r) != nil || subtle.ConstantTimeCompare([]byte(r.PostFormValue("token")), []byte(token)) != 1) {
			http.Error(w, "The request comes from another page. Reload this one, and try again.", http.StatusForbidden)
			return
		}
		if write && !s.sessions.mayWrite(secret) {
			http.Error(w, "Too many requests. Try again in a second.", http.StatusTooManyRequests)
			return
		}
		route.handle(w, r)
	}
}

// checkForm reads a form, and answers the request if it is none, or too large.
func (s *Server) checkForm(w http.ResponseWriter, r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		http.Error(w, "Send a form.", http.StatusUnsupportedMediaType)
		return false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "The form cannot be read, or is too large.", http.StatusBadRequest)
		return false
	}
	return true
}

// serveOtherPath answers all other paths with the login, which does not name the folder: no other user of the machine is to learn it. One below
// the folder of another server leads to the same page here.
func (s *Server) serveOtherPath(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "There is no such page.", http.StatusNotFound)
		return
	}
	id, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if id == s.id {
		if _, ok := s.sessionSecret(r); ok {
			s.noPage(w, r)
			return
		}
		http.Error(w, "There is no such page.", http.StatusNotFound)
		return
	}
	to := ""
	if len(id) == len(s.id) {
		to = withQuery(rest, r)
	}
	s.showLogin(w, r, http.StatusUnauthorized, to, "")
}

// pagePath returns the path of a page, whatever "to" is: always one below the folder.
func (s *Server) pagePath(to string) string {
	folder := "/"
	if s.id != "" {
		folder += s.id + "/"
	}
	path := &url.URL{Path: folder + strings.TrimLeft(to, "/")}
	return path.EscapedPath()
}
