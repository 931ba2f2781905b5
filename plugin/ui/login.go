package ui

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// withQuery returns a path below the folder with the query of a request, for the page after the login.
func withQuery(path string, r *http.Request) string {
	if r.URL.RawQuery == "" {
		return path
	}
	return path + "?" + r.URL.RawQuery
}

// addressOf returns the address of a page, whatever "to" is: always one below the folder, with a query of names and values alone.
func (s *Server) addressOf(to string) string {
	path, query, _ := strings.Cut(to, "?")
	values, _ := url.ParseQuery(query) // Without what cannot be read.
	if len(values) == 0 {
		return s.pagePath(path)
	}
	return s.pagePath(path) + "?" + values.Encode()
}

func (s *Server) loginPage(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.sessionSecret(r); ok {
		http.Redirect(w, r, s.pagePath(""), http.StatusSeeOther)
		return
	}
	s.showLogin(w, r, http.StatusOK, "", "")
}

func (s *Server) showLogin(w http.ResponseWriter, r *http.Request, status int, to, problem string) {
	base := outside
	if strings.HasPrefix(r.URL.Path, s.pagePath("")) {
		base = s.pagePath("")
	}
	s.renderPage(w, status, "login.html", map[string]any{"Base": base, "To": to, "Problem": problem})
}

// answerLogin takes a code from any page, as the code itself is the proof: a file on this machine sends it. The answer is a page that
// leads on, as a browser does not send the cookie along with a redirect that another site has started.
func (s *Server) answerLogin(w http.ResponseWriter, r *http.Request) {
	to := r.PostFormValue("to")
	replaced, _ := s.sessionSecret(r)
	secret, ok := s.sessions.startSession(strings.TrimSpace(r.PostFormValue("code")), replaced)
	if !ok {
		s.showLogin(w, r, http.StatusForbidden, to, "The code is wrong, or was used, or is older than 10 minutes. Press Enter in the terminal for a new one.")
		return
	}
	s.noteUse()
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(), Value: secret, Path: "/" + s.id + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		MaxAge: int(sessionLife / time.Second),
	})
	s.renderPage(w, http.StatusOK, "welcome.html", map[string]any{"Base": s.pagePath(""), "Next": s.addressOf(to)})
}

func (s *Server) answerLogout(w http.ResponseWriter, r *http.Request) {
	if secret, ok := s.sessionSecret(r); ok {
		s.sessions.endSession(secret)
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookieName(), Path: "/" + s.id + "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, s.pagePath("login"), http.StatusSeeOther)
}
