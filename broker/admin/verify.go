package admin

import (
	"net/http"

	"github.com/firnlog/firn/broker/admin/view"
)

// Tier is the upkeep of the bucket as the JSON API needs it.
type Tier interface {
	// Verify begins a verification; StopVerifying ends it.
	Verify(topics []string, depth string) error
	StopVerifying()
	Verification() view.Verification
	// Garbage tells what is to be deleted; with now, what is due is deleted first.
	Garbage(now bool) view.Garbage
}

func (s *Server) verification(w http.ResponseWriter, _ *http.Request) {
	s.write(w, http.StatusOK, s.options.Tier.Verification())
}

func (s *Server) verify(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if err := s.options.Tier.Verify(query["topic"], query.Get("depth")); err != nil {
		s.fail(w, http.StatusConflict, err)
		return
	}
	s.write(w, http.StatusOK, s.options.Tier.Verification())
}

func (s *Server) stopVerifying(w http.ResponseWriter, _ *http.Request) {
	s.options.Tier.StopVerifying()
	s.write(w, http.StatusOK, s.options.Tier.Verification())
}

func (s *Server) garbage(w http.ResponseWriter, r *http.Request) {
	s.write(w, http.StatusOK, s.options.Tier.Garbage(r.Method == http.MethodPost))
}
