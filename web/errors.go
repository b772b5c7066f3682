package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Refusals of the face itself.
var (
	errBadRequest  = errors.New("web: bad request")
	errNotLoggedIn = errors.New("web: not logged in")
	errForbidden   = errors.New("web: forbidden")
	errNoPage      = errors.New("web: no such page")
	errMethod      = errors.New("web: method not allowed")
	errTooLarge    = errors.New("web: body too large")
	errMediaType   = errors.New("web: not application/json")
)

// fieldError is a bad request that can name its field.
type fieldError struct{ field, reason string }

func (e fieldError) Error() string   { return "web: bad field " + e.field }
func (e fieldError) Is(t error) bool { return t == errBadRequest }

// refusals is the one table from error to status and code. The first that matches wins.
var refusals = []struct {
	err    error
	status int
	code   string
	zh, en string
}{
	{errBadRequest, 400, "bad_request", "请求有误", "The request is malformed"},
	{order.ErrWrongAmount, 400, "bad_request", "金额与订单不符", "The amount is not the order's price"},
	{order.ErrReusedRef, 409, "wrong_status", "该支付流水号已属于另一笔订单", "This payment reference belongs to another order"},
	{errNotLoggedIn, 401, "not_logged_in", "请先登录", "Please log in first"},
	{user.ErrNoSession, 401, "not_logged_in", "请先登录", "Please log in first"},
	{user.ErrWrongPassword, 401, "wrong_password", "手机号或密码错误", "Wrong phone or password"},
	{user.ErrWrongCode, 403, "wrong_code", "短信验证码错误或已过期", "The code is wrong or has expired"},
	{user.ErrPhoneTaken, 409, "phone_taken", "该手机号已注册", "This phone already has an account"},
	{user.ErrSMSOff, 403, "forbidden", "本店不发送短信验证码", "This shop sends no codes"},
	{seckill.ErrWrongCaptcha, 403, "wrong_captcha", "算式答案不对，请重做一题", "Wrong answer, please solve a new sum"},
	{seckill.ErrBadPath, 403, "bad_path", "抢购地址无效或已过期，请重新获取", "This address is not yours or has run out; get a new one"},
	{errForbidden, 403, "forbidden", "没有权限", "Not allowed"},
	{goods.ErrNoSale, 404, "no_sale", "没有这场秒杀", "There is no such sale"},
	{order.ErrNotFound, 404, "not_found", "找不到", "Not found"},
	{user.ErrNotFound, 404, "not_found", "找不到", "Not found"},
	{errNoPage, 404, "not_found", "找不到", "Not found"},
	{errMethod, 405, "method_not_allowed", "不支持该请求方法", "Method not allowed"},
	{goods.ErrPaused, 409, "paused", "秒杀暂停中，请稍候", "The sale is paused"},
	{order.ErrWrongStatus, 409, "wrong_status", "订单当前状态不支持该操作", "Not possible in the order's present state"},
	{goods.ErrEnded, 410, "ended", "秒杀已结束", "The sale has ended"},
	{goods.ErrSoldOut, 410, "sold_out", "已抢光", "Sold out"},
	{errTooLarge, 413, "too_large", "请求内容过大", "The request is too large"},
	{errMediaType, 415, "unsupported_media_type", "请使用 application/json", "Please send application/json"},
	{seckill.ErrBusy, 503, "busy", "系统繁忙，请稍后再试", "Busy, please try again shortly"},
	{user.ErrBusy, 503, "busy", "系统繁忙，请稍后再试", "Busy, please try again shortly"},
}

// writeError answers with a refusal, or with internal and an id that the log has too.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	body := map[string]any{}
	var early goods.NotStartedError
	var tooMany seckill.TooManyError
	var tooOften user.TooManyError
	var field fieldError
	switch {
	case errors.As(err, &early):
		body["starts_in_ms"] = max(1, early.In.Milliseconds())
		refuse(w, r, 403, "not_started", "还没有开始", "Not started yet", body)
		return
	case errors.As(err, &tooMany):
		refuseFor(w, r, tooMany.RetryAfter, body)
		return
	case errors.As(err, &tooOften):
		refuseFor(w, r, tooOften.RetryAfter, body)
		return
	case errors.As(err, &field):
		body["field"] = field.field
		if field.reason != "" {
			body["reason"] = field.reason
		}
	case r.Context().Err() != nil && errors.Is(err, context.Canceled):
		return // the caller is gone
	}
	for _, f := range refusals {
		if errors.Is(err, f.err) {
			if f.status == http.StatusServiceUnavailable {
				// A little apart, so that those who were told so don't come back as one.
				w.Header().Set("Retry-After", strconv.Itoa(1+rand.IntN(2)))
			}
			refuse(w, r, f.status, f.code, f.zh, f.en, body)
			return
		}
	}
	if isAway(err) {
		s.faults.Do(func() { s.Log.Error("a store is away", "path", pathOf(r), "err", err) })
		s.writeError(w, r, seckill.ErrBusy)
		return
	}
	id := uuid.NewString()
	body["id"] = id
	s.Log.Error("internal error", "id", id, "method", r.Method, "path", pathOf(r), "err", err)
	refuse(w, r, 500, "internal", "系统出错，编号 "+id, "Something broke, its number is "+id, body)
}

func refuseFor(w http.ResponseWriter, r *http.Request, wait time.Duration, body map[string]any) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
	refuse(w, r, 429, "too_many", "太频繁了，请稍候再试", "Too many at once, please wait a moment", body)
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code, zh, en string, body map[string]any) {
	body["code"], body["msg"] = code, en
	if chinese(r) {
		body["msg"] = zh
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	b, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("a refusal that is not JSON: %v", err)) // strings and numbers of ours only
	}
	w.Write(b)
}
