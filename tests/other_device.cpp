// "other", a device that is the host's memory under another name: what mixes its tensors with the CPU's fails, as on a
// GPU, and what makes the host wait for a GPU is counted.  Operators are the CPU's own, on the same memory, so numbers
// are too.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

namespace {

using at::Tensor;
using c10::Storage;
using Sizes = c10::SymIntArrayRef;

constexpr auto KEY = c10::DispatchKey::PrivateUse1;
const c10::Device OTHER(c10::DeviceType::PrivateUse1, 0), CPU(c10::kCPU);

std::atomic<int64_t> waits{0};

// ---- what torch asks of a device

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes ? std::aligned_alloc(64, (bytes + 63) / 64 * 64) : nullptr;
    return {data, data, &std::free, OTHER};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
} memory;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &memory);

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::Stream only() const { return c10::Stream(c10::Stream::DEFAULT, OTHER); }
  c10::DeviceType type() const override { return OTHER.type(); }
  c10::Device exchangeDevice(c10::Device) const override { return OTHER; }
  c10::Device getDevice() const override { return OTHER; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return only(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return only(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Draws final : c10::GeneratorImpl {  // the CPU's
  at::Generator of_cpu;
  explicit Draws(at::Generator of_cpu) : GeneratorImpl(OTHER, c10::DispatchKeySet(KEY)), of_cpu(std::move(of_cpu)) {}
  void set_current_seed(uint64_t seed) override { of_cpu.set_current_seed(seed); }
  void set_offset(uint64_t) override {}
  uint64_t get_offset() const override { return 0; }
  uint64_t current_seed() const override { return of_cpu.current_seed(); }
  uint64_t seed() override { return of_cpu.seed(); }
  void set_state(const c10::TensorImpl& state) override { of_cpu.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return of_cpu.unsafeGetGeneratorImpl()->get_state(); }
  Draws* clone_impl() const override { return new Draws(of_cpu.clone()); }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::make_generator<Draws>(at::detail::createCPUGenerator());
  }
} hooks;
const int registered = (at::RegisterPrivateUse1HooksInterface(&hooks), 0);

// ---- the same memory under the other name

Tensor shaped_like(const Tensor& tensor, Storage storage, c10::DispatchKey key) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return made;
}

Storage renamed(const Storage& storage, c10::Device device) {
  auto free = [](void* held) { delete static_cast<Storage*>(held); };
  c10::DataPtr data(const_cast<void*>(storage.data()), new Storage(storage), free, device);
  auto* allocator = device.is_cpu() ? c10::GetAllocator(c10::kCPU) : &memory;
  return Storage(Storage::use_byte_size_t(), storage.nbytes(), std::move(data), allocator, /*resizable=*/true);
}

// What one operator sees: tensors that share memory here share it there, so that views stay views.
struct Names {
  std::vector<std::pair<Storage, Storage>> pairs;  // ours, the CPU's

  static bool same(const Storage& a, const Storage& b) { return a.unsafeGetStorageImpl() == b.unsafeGetStorageImpl(); }

  Tensor cpu(const Tensor& tensor) {
    if (!tensor.defined() || tensor.device() != OTHER) return tensor;
    for (auto& [ours, of_cpu] : pairs)
      if (same(ours, tensor.storage())) return shaped_like(tensor, of_cpu, c10::DispatchKey::CPU);
    pairs.emplace_back(tensor.storage(), renamed(tensor.storage(), CPU));
    return shaped_like(tensor, pairs.back().second, c10::DispatchKey::CPU);
  }
  std::optional<Tensor> cpu(const std::optional<Tensor>& tensor) {
    return tensor ? std::optional<Tensor>(cpu(*tensor)) : tensor;
  }
  Tensor other(const Tensor& tensor) const {
    if (!tensor.defined() || !tensor.device().is_cpu()) return tensor;
    for (auto& [ours, of_cpu] : pairs)
      if (same(of_cpu, tensor.storage())) return shaped_like(tensor, ours, KEY);
    return shaped_like(tensor, renamed(tensor.storage(), OTHER), KEY);
  }
};

void check(const Tensor& tensor, const std::string& name) {
  TORCH_CHECK(!tensor.defined() || tensor.device() == OTHER || tensor.dim() == 0, name,
              ": expected all tensors to be on the same device; got one of ", tensor.sizes(), " on ", tensor.device());
}

// Every operator that is not below: the CPU's.
void of_cpu(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  static const std::set<std::string> TELL_THE_HOST = {"aten::nonzero", "aten::masked_select", "aten::equal",
                                                      "aten::_unique2", "aten::unique_dim", "aten::bincount"};
  const auto& schema = op.schema();
  const auto& name = schema.name();
  const auto last = torch::jit::last(*stack, schema.arguments().size());
  const std::vector<c10::IValue> given(last.begin(), last.end());
  if (TELL_THE_HOST.count(name)) waits++;

  Names names;
  torch::jit::Stack inside;
  for (const auto& value : given) {
    if (value.isTensor()) {
      check(value.toTensor(), name);
      inside.emplace_back(names.cpu(value.toTensor()));
    } else if (value.isTensorList()) {
      std::vector<Tensor> tensors;
      for (const Tensor& tensor : value.toTensorVector()) check(tensor, name), tensors.push_back(names.cpu(tensor));
      inside.emplace_back(tensors);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> tensors;
      for (std::optional<Tensor> tensor : value.toOptionalTensorList()) {
        if (tensor) check(*tensor, name);
        tensors.push_back(names.cpu(tensor));
      }
      inside.emplace_back(tensors);
    } else if (value.isGenerator()) {
      TORCH_CHECK(value.toGenerator().device() == OTHER, name, ": expected a generator on other; got one on ",
                  value.toGenerator().device());
      inside.emplace_back(static_cast<Draws*>(value.toGenerator().unsafeGetGeneratorImpl())->of_cpu);
    } else {
      inside.push_back(value.isDevice() ? c10::IValue(CPU) : value);
    }
  }
  const torch::jit::Stack arguments = inside;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &inside);

  auto written = [&](size_t i) {
    const auto* alias = schema.arguments()[i].alias_info();
    return alias && alias->isWrite() && given[i].isTensor() && given[i].toTensor().defined();
  };
  for (size_t i = 0; i < given.size(); i++) {  // an output may have grown, and have other memory now
    if (!written(i)) continue;
    const Tensor was = given[i].toTensor(), now = arguments[i].toTensor();
    auto* ours = was.unsafeGetTensorImpl();
    if (was.storage().data() != now.storage().data()) ours->set_storage_keep_dtype(renamed(now.storage(), OTHER));
    ours->set_sizes_and_strides(now.sizes(), now.strides(), now.storage_offset());
  }
  torch::jit::drop(*stack, given.size());
  for (size_t r = 0; r < inside.size(); r++) {
    const auto* alias = schema.returns()[r].alias_info();
    const c10::IValue* itself = nullptr;
    for (size_t i = 0; alias && alias->isWrite() && i < given.size() && !itself; i++)
      if (written(i) && schema.arguments()[i].alias_info()->beforeSets() == alias->beforeSets()) itself = &given[i];
    if (itself) {
      stack->push_back(*itself);
    } else if (inside[r].isTensor()) {
      stack->emplace_back(names.other(inside[r].toTensor()));
    } else if (inside[r].isTensorList()) {
      std::vector<Tensor> tensors;
      for (const Tensor& tensor : inside[r].toTensorVector()) tensors.push_back(names.other(tensor));
      stack->emplace_back(tensors);
    } else {
      stack->push_back(inside[r]);
    }
  }
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&of_cpu>()); }

// ---- operators that need more than the CPU's

Tensor empty(Sizes size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>, std::optional<c10::Device>,
             std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  return at::detail::empty_generic(sizes, &memory, c10::DispatchKeySet(KEY), c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(Sizes size, Sizes stride, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                     std::optional<c10::Device>, std::optional<bool>) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size), strides = C10_AS_INTARRAYREF_SLOW(stride);
  return at::detail::empty_strided_generic(sizes, strides, &memory, c10::DispatchKeySet(KEY),
                                           c10::dtype_or_default(dtype));
}

Tensor copy(const Tensor& from, const Tensor& to, bool non_blocking) {
  if (to.device().is_cpu() || (from.device().is_cpu() && !non_blocking)) waits++;
  Names names;
  names.cpu(to).copy_(names.cpu(from));
  return to;
}

c10::Scalar item(const Tensor& tensor) {
  waits++;
  return at::_local_scalar_dense(Names().cpu(tensor));
}

Tensor& set(Tensor& tensor, Storage storage, c10::SymInt offset, Sizes size, Sizes stride) {
  auto* inside = tensor.unsafeGetTensorImpl();
  inside->set_storage_keep_dtype(std::move(storage));
  inside->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), offset.expect_int());
  return tensor;
}

Tensor& set_whole(Tensor& tensor, Storage storage) {
  const c10::SymInt count = storage.nbytes() / tensor.itemsize(), one = 1;
  return set(tensor, std::move(storage), 0, Sizes(count), Sizes(one));
}

const char* CONVOLUTION = "aten::convolution";

Tensor convolution(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, Sizes stride, Sizes padding,
                   Sizes dilation, bool transposed, Sizes output_padding, c10::SymInt groups) {
  for (const Tensor& tensor : {x, weight, bias.value_or(x)}) check(tensor, CONVOLUTION);
  Names names;
  return names.other(at::convolution_symint(names.cpu(x), names.cpu(weight), names.cpu(bias), stride, padding, dilation,
                                            transposed, output_padding, groups));
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& gradient, const Tensor& x, const Tensor& weight,
                                                        Sizes stride, Sizes padding, Sizes dilation, bool transposed,
                                                        Sizes output_padding, c10::SymInt groups,
                                                        std::array<bool, 3> wanted) {
  for (const Tensor& tensor : {gradient, x, weight}) check(tensor, CONVOLUTION);
  const c10::SymInt of_bias = gradient.sym_size(1);
  Names names;
  auto [of_x, of_weight, of_its_bias] =
      at::convolution_backward_symint(names.cpu(gradient), names.cpu(x), names.cpu(weight), Sizes(of_bias), stride,
                                      padding, dilation, transposed, output_padding, groups, wanted);
  return {names.other(of_x), names.other(of_weight), names.other(of_its_bias)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy);
  m.impl("_local_scalar_dense", &item);
  m.impl("set_.source_Storage", &set_whole);
  m.impl("set_.source_Storage_storage_offset", &set);
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
}

// ---- mixed precision: what a GPU computes in half of it

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define IN_HALF(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(IN_HALF)
#define IN_FULL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(IN_FULL)
}

}  // namespace

extern "C" int64_t waited() { return waits; }  // how often the host has waited for the device, from the start
