package firn

import (
	"cmp"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/firnlog/firn"

// importRow is a row of the table; each field holds patterns, separated by spaces. The first row that fits a package
// is the one that counts.
type importRow struct {
	packages string // of ours
	may      string // of ours, besides internal/...
	testsMay string // of ours, in tests on top of that
	never    string // import paths, with all below them, that would show that a job has crept in; tests are free
}

// imports says who may import whom, as docs/architecture.md draws it. Paths are below the module's, "." is the root;
// "x/..." is x and everything below it. A package without a row may not exist: a new one gets its row here first.
//
// Everybody may import internal/..., which is vocabulary and substrate; it imports nothing else of ours.
var imports = []importRow{
	{packages: "internal/kafka", never: modulePath + " net os"},
	{packages: "internal/...", never: pebbleAndRaft + " " + buckets},

	{packages: "metastore/command", never: pebbleAndRaft + " time"},
	{packages: "metastore/image", never: pebbleAndRaft + " time"},
	{packages: "metastore/state", never: raftLibrary},
	{packages: "metastore/raftlog", may: "metastore/state"},
	{packages: "metastore/controller", may: "metastore/command metastore/image", never: pebbleAndRaft + " time"},
	{packages: "metastore", may: "metastore/..."},

	{packages: "broker/record", never: "net os " + modulePath + "/internal/network"},
	{packages: "broker/wire", may: "broker/record", never: "net/http os"},
	{packages: "broker/storage", may: "broker/record", never: pebbleAndRaft + " " + buckets + " net os"},
	{packages: "broker/purgatory", never: "net os"},
	{packages: "broker/coordinator", may: "broker/record", never: pebbleAndRaft + " net os"},
	{
		packages: "broker/group/...", may: "broker/record broker/coordinator broker/group/...",
		never: pebbleAndRaft + " net os",
	},
	{packages: "broker/txn", may: "broker/record broker/coordinator", never: pebbleAndRaft + " net os"},
	{
		packages: "broker/replica",
		may: "broker/storage broker/record broker/purgatory broker/wire " +
			"metastore/image metastore/command",
		never: pebbleAndRaft + " " + buckets + " net os",
	},
	{
		packages: "broker/api",
		may: "broker/replica broker/coordinator broker/group/... broker/txn broker/wire broker/record " +
			"metastore/image metastore/command",
		// Its tests answer real requests on a real metastore and real logs.
		testsMay: "broker/storage metastore metastore/state metastore/controller",
		never:    pebbleAndRaft + " " + buckets + " os",
	},
	{packages: "broker/server", may: "broker/wire broker/record", never: pebbleAndRaft + " net/http"},
	{packages: "broker/admin/view", never: "net net/http os"},
	{
		packages: "broker/admin", // read only: it shows what the others have
		may:      "broker/admin/view broker/storage broker/replica metastore/image metastore/command",
		never:    pebbleAndRaft + " " + buckets,
	},

	{packages: "retention", may: "broker/storage", never: pebbleAndRaft + " " + buckets + " os"},
	{
		packages: "compaction", may: "broker/storage broker/record",
		never: pebbleAndRaft + " " + buckets + " net os",
	},

	{packages: "tiering/objectstore", testsMay: "tiering/objectstore/objectstoretest", never: pebbleAndRaft},
	{packages: "tiering/objectstore/objectstoretest", may: "tiering/objectstore"},
	{
		packages: "tiering/...",
		may:      "broker/storage broker/record metastore/image metastore/command tiering/...",
		// Its tests copy real logs, by commits of a real metastore, and have the real cleaner rewrite what they copied.
		testsMay: "metastore metastore/state compaction",
		never:    pebbleAndRaft + " " + buckets + " net os",
	},

	// The composition root knows every part.
	{packages: ".", may: "broker/... metastore/... compaction retention tiering/..."},
	{packages: "cmd/firn/httpapi", may: "broker/admin/view"},
	{packages: "cmd/firn/demo", may: "cmd/firn/httpapi broker/admin/view"}, // a client, whatever node it is shown
	{packages: "cmd/firn/bench", testsMay: "."},                            // a client, whatever clusters it is shown
	{
		packages: "cmd/firn",
		may: ". cmd/firn/... broker/admin/view broker/record broker/storage metastore/command " +
			"tiering/objectstore tiering/segment tiering/manifest tiering/checkpoint tiering/bulk", // without a broker
		never: pebbleAndRaft + " " + buckets,
	},
	{packages: "integration/...", may: ". broker/... metastore/... compaction retention tiering/... integration/..."},
}

const (
	raftLibrary   = "github.com/hashicorp/raft"
	pebbleAndRaft = raftLibrary + " github.com/cockroachdb/pebble"
	buckets       = "github.com/aws github.com/minio/minio-go" // SDKs of object stores
)

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	used := map[string]bool{}
	for _, file := range sourceFiles(t) {
		place := slices.IndexFunc(imports, func(r importRow) bool { return matches(r.packages, file.folder) })
		if place < 0 {
			t.Errorf("%s: package %q has no row in the table of imports_test.go", file.name, file.folder)
			continue
		}
		row := imports[place]
		used[row.packages] = true
		for _, imported := range file.imports() {
			if !row.allows(imported, file.isTest) {
				t.Errorf("%s must not import %s", file.name, imported)
			}
		}
	}
	for _, row := range imports {
		if !used[row.packages] {
			t.Errorf("the table has a row for %q, which has no Go files", row.packages)
		}
	}
}

// Whatever is wrong in one of our files shows in the same few calls.
var forbidden = []struct {
	call   string
	except func(file *sourceFile) bool // nil: nobody
	reason string
}{
	{call: "time.Sleep", except: inBubble, reason: "wait for what happens; sleep in a synctest bubble only"},
	{call: "slog.Default", reason: "a logger is handed in"},
	{call: "slog.SetDefault", reason: "a logger is handed in"},
	{call: "http.DefaultClient", reason: "a client is made where its time-outs are known"},
	{call: "http.DefaultTransport", except: isTest, reason: "a transport is made where its time-outs are known"},
	{call: "prometheus.DefaultRegisterer", reason: "a registry is handed in"},
	{call: "log.Print", reason: "log with the slog.Logger that was handed in"},
	{call: "log.Printf", reason: "log with the slog.Logger that was handed in"},
	{call: "log.Println", reason: "log with the slog.Logger that was handed in"},
	{call: "log.Fatal", reason: "return an error; only main ends the process"},
	{call: "log.Fatalf", reason: "return an error; only main ends the process"},
	{call: "os.Exit", except: isCommand, reason: "return an error; only main ends the process"},
}

func isTest(file *sourceFile) bool    { return file.isTest }
func isCommand(file *sourceFile) bool { return file.syntax.Name.Name == "main" || file.isTest }

func inBubble(file *sourceFile) bool { return file.isTest && file.bubbles }

func TestSourceKeepsToTheRules(t *testing.T) {
	for _, file := range sourceFiles(t) {
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				if node.Name.Name == "init" && node.Recv == nil {
					t.Errorf("%s: func init: nothing happens because a package is imported", file.at(node))
				}
			case *ast.SelectorExpr:
				file.checkSelector(t, node)
			}
			return true
		})
	}
}

func (f *sourceFile) checkSelector(t *testing.T, selector *ast.SelectorExpr) {
	t.Helper()
	pkg, ok := selector.X.(*ast.Ident)
	if !ok {
		return
	}
	call := pkg.Name + "." + selector.Sel.Name
	for _, rule := range forbidden {
		if rule.call == call && (rule.except == nil || !rule.except(f)) {
			t.Errorf("%s: %s: %s", f.at(selector), call, rule.reason)
		}
	}
}

// Nothing in the repository tells where it was written, and nothing waits in a comment to be done.
var foreign = regexp.MustCompile(`(?:^|[\s"'(=])/(?:home|root|Users|work)/\w|\b(?:TODO|FIXME|XXX)\b`)

func TestTextsNameNoMachineAndNoUnfinishedWork(t *testing.T) {
	kinds := []string{".go", ".md", ".yml", ".yaml", ".xml", ".txt", ".py", ".java", ".sh", ".mod", ""}
	eachFile(t, func(name string, text []byte) {
		if name == "imports_test.go" || !slices.Contains(kinds, path.Ext(name)) {
			return
		}
		for number, line := range strings.Split(string(text), "\n") {
			if found := foreign.FindString(line); found != "" {
				t.Errorf("%s:%d: %q", name, number+1, found)
			}
		}
	})
}

// allows tells whether a file may import something.
func (r importRow) allows(imported string, isTest bool) bool {
	if !isTest && slices.ContainsFunc(strings.Fields(r.never), func(path string) bool {
		return imported == path || strings.HasPrefix(imported, path+"/")
	}) {
		return false
	}
	folder, ours := strings.CutPrefix(imported, modulePath)
	if !ours {
		return true
	}
	folder = cmp.Or(strings.TrimPrefix(folder, "/"), ".")
	return matches("internal/... "+r.packages+" "+r.may, folder) || isTest && matches(r.testsMay, folder)
}

// matches tells whether a folder is meant by one of several patterns.
func matches(patterns, folder string) bool {
	for _, pattern := range strings.Fields(patterns) {
		below, found := strings.CutSuffix(pattern, "/...")
		if pattern == folder || found && (folder == below || strings.HasPrefix(folder, below+"/")) {
			return true
		}
	}
	return false
}

// sourceFile is a Go file of the module.
type sourceFile struct {
	name   string // from the root
	folder string
	isTest bool
	// bubbles says that tests of the folder run in fake time; which of their helpers do cannot be told from here.
	bubbles bool
	set     *token.FileSet
	syntax  *ast.File
}

func (f *sourceFile) at(node ast.Node) token.Position { return f.set.Position(node.Pos()) }

func (f *sourceFile) imports() []string {
	var paths []string
	for _, spec := range f.syntax.Imports {
		if imported, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, imported)
		}
	}
	return paths
}

// sourceFiles parses the module's files in this process. A test that asked the go command instead would be answered
// from the test cache after another package had changed.
func sourceFiles(t *testing.T) []*sourceFile {
	t.Helper()
	var files []*sourceFile
	set := token.NewFileSet()
	eachFile(t, func(name string, text []byte) {
		if path.Ext(name) != ".go" {
			return
		}
		syntax, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		files = append(files, &sourceFile{
			name: name, folder: path.Dir(name), isTest: strings.HasSuffix(name, "_test.go"), set: set, syntax: syntax,
		})
	})
	if len(files) == 0 {
		t.Fatal("no Go files were found")
	}
	bubbles := map[string]bool{}
	for _, file := range files {
		if file.isTest && slices.Contains(file.imports(), "testing/synctest") {
			bubbles[file.folder] = true
		}
	}
	for _, file := range files {
		file.bubbles = bubbles[file.folder]
	}
	return files
}

// eachFile visits the module's files. What is hidden, made by a build or a run, or a module of its own is left out.
func eachFile(t *testing.T, visit func(name string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			text, err := os.ReadFile(name)
			if err == nil {
				visit(filepath.ToSlash(name), text)
			}
			return err
		case name == ".":
			return nil
		case name == "bin", name == "firn-data", entry.Name() == "testdata", strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(name, "go.mod")); !errors.Is(err, fs.ErrNotExist) {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
