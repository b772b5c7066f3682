package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// No server listens on port 1: a test may ask there and be refused, but not listen.
var port = regexp.MustCompile(`(?:^|[@/= ]|\b127\.\d+\.\d+\.\d+|\blocalhost|\[::1?\]|\b0\.0\.0\.0):([1-9]\d*)(?:$|[/ ,?])`)

// fixedPort reports an address with a port of its own in the arguments of a call that listens, asks or runs a program.
func (c *checker) fixedPort(n *ast.CallExpr, of, name string) {
	listens := (of == "net" || of == "net.ListenConfig" || of == "crypto/tls" || of == "net/http" ||
		of == "net/http.Server") &&
		strings.HasPrefix(name, "Listen")
	asks := strings.HasPrefix(of, "net") && strings.HasPrefix(name, "Dial") || of == "crypto/tls" &&
		strings.HasPrefix(name, "Dial") ||
		(of == "net/http" || of == "net/http.Client") &&
			slices.Contains([]string{"Get", "Head", "Post", "PostForm", "NewRequest", "NewRequestWithContext"}, name)
	runs := of == "os/exec" || path.Base(of) == "sandboxtest"
	if listens || asks || runs {
		for _, argument := range n.Args {
			c.fixedIn(argument, !listens)
		}
	}
}

// fixedIn reports the addresses with a port of their own in an expression.
func (c *checker) fixedIn(e ast.Expr, mayRefuse bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && n != e {
			if of, name := c.function(call); of != "" || name != "append" && name != "with" {
				return false // judged itself
			}
		}
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		expr, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		value := c.pass.TypesInfo.Types[expr].Value
		if lit, isLit := expr.(*ast.BasicLit); value == nil && isLit && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				value = constant.MakeString(s)
			}
		}
		if value == nil || value.Kind() != constant.String {
			return true
		}
		for _, m := range port.FindAllStringSubmatch(constant.StringVal(value), -1) {
			if m[1] != "1" || !mayRefuse {
				c.report(expr.Pos(), fixed)
			}
		}
		return false
	})
}

// ports reports the ports that a function body releases and then uses.
func (c *checker) ports(body *ast.BlockStmt) {
	listeners := map[types.Object]bool{}
	c.inBody(body, func(n ast.Node, _ bool) {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Rhs) != 1 {
			return
		}
		call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
		if !ok {
			return
		}
		of, name := c.function(call)
		if of == "net" && strings.HasPrefix(name, "Listen") || of == "net/http/httptest" &&
			strings.HasPrefix(name, "New") && strings.HasSuffix(name, "Server") {
			if object := c.object(assign.Lhs[0]); object != nil {
				listeners[object] = true
			}
		}
	})
	for listener := range listeners {
		c.releasedPort(body, listener)
	}
}

// releasedPort reports a Close of a listener after which its address is used. A deferred Close comes after the value
// that the function returns.
func (c *checker) releasedPort(body *ast.BlockStmt, listener types.Object) {
	isAddress := func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		return ok && (s.Sel.Name == "Addr" || s.Sel.Name == "URL") && c.object(s.X) == listener
	}
	address := map[types.Object]bool{} // variables that hold it
	c.inBody(body, func(n ast.Node, _ bool) {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || !slices.ContainsFunc(assign.Rhs, func(e ast.Expr) bool { return c.isPartOf(e, isAddress) }) {
			return
		}
		for _, to := range assign.Lhs {
			if object := c.object(to); object != nil {
				address[object] = true
			}
		}
	})
	uses := func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		return isAddress(n) || ok && address[c.pass.TypesInfo.Uses[name]]
	}
	c.inBody(body, func(n ast.Node, deferred bool) {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) > 0 {
			return
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "Close" || c.object(s.X) != listener {
			return
		}
		used := false
		if deferred {
			c.inBody(body, func(n ast.Node, _ bool) {
				if n, ok := n.(*ast.ReturnStmt); ok {
					used = used || slices.ContainsFunc(n.Results, func(e ast.Expr) bool { return c.isPartOf(e, uses) })
				}
			})
		} else {
			used = contains(body, func(n ast.Node) bool { return n.Pos() > call.End() && uses(n) })
		}
		if used {
			c.report(call.Pos(), released)
		}
	})
}

// isPartOf reports whether a value is text of which a part is: by methods, operators and Go's own functions for text,
// and not by other calls.
func (c *checker) isPartOf(e ast.Expr, is func(ast.Node) bool) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 {
			of, name := c.function(call)
			if of == "net" && strings.HasPrefix(name, "Dial") ||
				!slices.Contains([]string{"net", "fmt", "strings", "strconv"}, of) {
				return false
			}
		}
		found = found || n != nil && is(n)
		return !found
	})
	return found
}

// inBody calls f with the nodes of a function body, without those of functions inside it, and whether a defer statement
// holds them.
func (c *checker) inBody(body *ast.BlockStmt, f func(n ast.Node, deferred bool)) {
	var walk func(root ast.Node, deferred bool)
	walk = func(root ast.Node, deferred bool) {
		ast.Inspect(root, func(n ast.Node) bool {
			switch n := n.(type) {
			case nil, *ast.FuncLit:
				return false
			case *ast.DeferStmt:
				if !deferred {
					walk(n.Call, true)
					return false
				}
			}
			f(n, deferred)
			return true
		})
	}
	walk(body, false)
}

// contains reports whether a node in root is one of those for which is returns true.
func contains(root ast.Node, is func(ast.Node) bool) (found bool) {
	ast.Inspect(root, func(n ast.Node) bool {
		found = found || n != nil && is(n)
		return !found
	})
	return found
}
