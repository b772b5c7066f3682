package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/user"
)

// Refusals of the HTTP layer itself.
var (
	errBadRequest  = errors.New("web: bad request")
	errNotLoggedIn = errors.New("web: not logged in")
	errForbidden   = errors.New("web: forbidden")
	errHost        = errors.New("web: not a name of this shop")
	errNoPage      = errors.New("web: no such page")
	errMethod      = errors.New("web: method not allowed")
	errTooLarge    = errors.New("web: body too large")
	errMediaType   = errors.New("web: not application/json")
)

// fieldError is a bad request in a field that has a name.
type fieldError struct{ field, reason string }

func (e fieldError) Error() string   { return "web: bad field " + e.field }
func (e fieldError) Is(t error) bool { return t == errBadRequest }

// refusal is the answer to an error that the shop expects.
type refusal struct {
	err    error
	status int
	code   string
	zh, en string
	more   map[string]any // other fields
	bodies [2][]byte      // in Chinese and in English, made at the start
}

// refusals maps errors to statuses and codes. The first match counts.
var refusals = []refusal{
	{err: errBadRequest, status: 400, code: "bad_request", zh: "请求有误", en: "The request is malformed"},
	{err: order.ErrWrongAmount, status: 400, code: "bad_request", zh: "金额与订单不符", en: "The amount is not the order's price"},
	{err: order.ErrReusedRef, status: 409, code: "wrong_status", zh: "该支付流水号已属于另一笔订单", en: "This payment reference belongs to another order"},
	{err: errNotLoggedIn, status: 401, code: "not_logged_in", zh: "请先登录", en: "Please log in first"},
	{err: user.ErrNoSession, status: 401, code: "not_logged_in", zh: "请先登录", en: "Please log in first"},
	{err: user.ErrWrongPassword, status: 401, code: "wrong_password", zh: "手机号或密码错误", en: "Wrong phone or password"},
	{err: user.ErrWrongCode, status: 403, code: "wrong_code", zh: "短信验证码错误或已过期", en: "The code is wrong or has expired"},
	{err: user.ErrPhoneTaken, status: 409, code: "phone_taken", zh: "该手机号已注册", en: "This phone already has an account"},
	{err: user.ErrSMSOff, status: 403, code: "forbidden", zh: "本店不发送短信验证码", en: "This shop sends no codes"},
	{err: seckill.ErrWrongCaptcha, status: 403, code: "wrong_captcha", zh: "算式答案不对，请重做一题", en: "Wrong answer, please solve a new sum"},
	{err: seckill.ErrBadPath, status: 403, code: "bad_path", zh: "抢购地址无效或已过期，请重新获取", en: "This address is not yours or has run out; get a new one"},
	{err: errForbidden, status: 403, code: "forbidden", zh: "没有权限", en: "Not allowed"},
	{err: errHost, status: 403, code: "forbidden", zh: "本店不以这个域名提供服务，可用 --allow-host 添加", en: "This shop does not answer to that name; --allow-host adds one"},
	{err: goods.ErrNoSale, status: 404, code: "no_sale", zh: "没有这场秒杀", en: "There is no such sale"},
	{err: order.ErrNotFound, status: 404, code: "not_found", zh: "找不到", en: "Not found"},
	{err: user.ErrNotFound, status: 404, code: "not_found", zh: "找不到", en: "Not found"},
	{err: errNoPage, status: 404, code: "not_found", zh: "找不到", en: "Not found"},
	{err: errMethod, status: 405, code: "method_not_allowed", zh: "不支持该请求方法", en: "Method not allowed"},
	{err: goods.ErrPaused, status: 409, code: "paused", zh: "秒杀暂停中，请稍候", en: "The sale is paused"},
	{err: order.ErrWrongStatus, status: 409, code: "wrong_status", zh: "订单当前状态不支持该操作", en: "Not possible in the order's present state"},
	{err: order.ErrDeclined, status: 409, code: "declined", zh: "该订单的支付已多次被拒绝，不能再次支付；请取消订单，或等待其自动取消",
		en: "Too many payments for this order were declined; cancel the order, or let its time run out"},
	{err: goods.ErrEnded, status: 410, code: "ended", zh: "秒杀已结束", en: "The sale has ended"},
	{err: goods.ErrSoldOut, status: 410, code: "sold_out", zh: "已抢光", en: "Sold out"},
	{err: errLabNoRight, status: 409, code: "lab_unavailable", zh: "本店的数据库账号无权建立实验用的 schema，实验室不可用",
		en: "The lab is not available: this shop's database role may not make the lab's schema"},
	{err: errLabTooLong, status: 409, code: "too_long", zh: "实验在限定时间内没有做完", en: "This took longer than the lab allows"},
	{err: errLabStopped, status: 409, code: "stopped", zh: "实验已停止", en: "Stopped"},
	{err: errTooLarge, status: 413, code: "too_large", zh: "请求内容过大", en: "The request is too large"},
	{err: errMediaType, status: 415, code: "unsupported_media_type", zh: "请使用 application/json", en: "Please send application/json"},
	{err: seckill.ErrBusy, status: 503, code: "busy", zh: "系统繁忙，请稍后再试", en: "Busy, please try again shortly"},
	{err: errLabBusy, status: 503, code: "busy", zh: "实验室正在做另一次实验，请稍候", en: "The lab is in use, please wait until it is free"},
	{err: user.ErrSolveFirst, status: 503, code: "busy", zh: "现在人很多，请先做一道算式", en: "Many people are here, please solve a sum first",
		more: map[string]any{"captcha": true}},
	{err: user.ErrChanged, status: 503, code: "busy", zh: "账号刚刚有变动，请重新登录", en: "The account has just changed, please log in again"},
	{err: user.ErrBusy, status: 503, code: "busy", zh: "系统繁忙，请稍后再试", en: "Busy, please try again shortly"},
}

func init() {
	for i := range refusals {
		f := &refusals[i]
		f.bodies = [2][]byte{refusalBody(f.code, f.zh, f.more), refusalBody(f.code, f.en, f.more)}
	}
}

// retrySoon are two values of Retry-After. A random one is sent, so that refused callers don't all come
// back at once.
var retrySoon = [][]string{{"1"}, {"2"}}

// writeError answers with the refusal of err. For any other error it answers internal with an id, and
// logs the error under that id. The first loop is for speed: a crowd gets these refusals as bytes that
// are ready.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	for i := range refusals {
		if f := &refusals[i]; err == f.err {
			f.write(w, r)
			return
		}
	}
	var early goods.NotStartedError
	var tooMany seckill.TooManyError
	var tooOften user.TooManyError
	var field fieldError
	switch {
	case errors.As(err, &early):
		refuse(w, r, 403, "not_started", "还没有开始", "Not started yet", map[string]any{"starts_in_ms": max(1, early.In.Milliseconds())})
		return
	case errors.As(err, &tooMany):
		refuseTooMany(w, r, tooMany.RetryAfter)
		return
	case errors.As(err, &tooOften):
		refuseTooMany(w, r, tooOften.RetryAfter)
		return
	case errors.As(err, &field):
		more := map[string]any{"field": field.field}
		if field.reason != "" {
			more["reason"] = field.reason
		}
		refuse(w, r, 400, "bad_request", "请求有误", "The request is malformed", more)
		return
	case r.Context().Err() != nil && errors.Is(err, context.Canceled):
		return // the client has closed the connection
	}
	if f := refusalOf(err); f != nil {
		f.write(w, r)
		return
	}
	if isUnavailable(err) {
		s.faults.Do(func() { s.Log.Error("a store is unavailable", "path", routePattern(r), "err", err) })
		s.writeError(w, r, seckill.ErrBusy)
		return
	}
	id := uuid.NewString()
	s.Log.Error("internal error", "id", id, "method", r.Method, "path", routePattern(r), "err", err)
	zh, en := internalMsg(id)
	refuse(w, r, 500, "internal", zh, en, map[string]any{"id": id})
}

// refusalOf returns the refusal of err in the table, or nil.
func refusalOf(err error) *refusal {
	for i := range refusals {
		if f := &refusals[i]; errors.Is(err, f.err) {
			return f
		}
	}
	return nil
}

// codeAndMsg returns the code and message of an error that is part of an answer. If it is no refusal,
// that is internal with the id under which the error is logged.
func codeAndMsg(r *http.Request, err error, id string) (code, msg string) {
	code = "internal"
	zh, en := internalMsg(id)
	if f := refusalOf(err); f != nil {
		code, zh, en = f.code, f.zh, f.en
	}
	if chinese(r) {
		return code, zh
	}
	return code, en
}

func internalMsg(id string) (zh, en string) {
	return "系统出错，编号 " + id, "Something broke, its number is " + id
}

func (f *refusal) write(w http.ResponseWriter, r *http.Request) {
	if f.status == http.StatusServiceUnavailable {
		w.Header()["Retry-After"] = retrySoon[rand.IntN(len(retrySoon))]
	}
	body := f.bodies[1]
	if chinese(r) {
		body = f.bodies[0]
	}
	writeRefusal(w, f.status, body)
}

func refuseTooMany(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
	refuse(w, r, 429, "too_many", "太频繁了，请稍候再试", "Too many at once, please wait a moment", nil)
}

// refuse writes a refusal with more fields than code and msg.
func refuse(w http.ResponseWriter, r *http.Request, status int, code, zh, en string, more map[string]any) {
	msg := en
	if chinese(r) {
		msg = zh
	}
	writeRefusal(w, status, refusalBody(code, msg, more))
}

func refusalBody(code, msg string, more map[string]any) []byte {
	body := map[string]any{"code": code, "msg": msg}
	maps.Copy(body, more)
	b, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("encode a refusal: %v", err)) // impossible: it has strings and numbers only
	}
	return b
}

func writeRefusal(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = jsonType, noStore
	w.WriteHeader(status)
	w.Write(body)
}
