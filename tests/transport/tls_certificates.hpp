// SPDX-License-Identifier: BSL-1.0
#pragma once

// Authorities, and the certificates that they sign, made anew for each test.

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

namespace test {

/// A folder that is gone with this object.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = std::filesystem::temp_directory_path() / "tutti.XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder");
    path_ = name;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& file) const { return path_ / file; }

 private:
  std::filesystem::path path_;
};

struct free_openssl {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using key_pointer = std::unique_ptr<EVP_PKEY, free_openssl>;
using certificate_pointer = std::unique_ptr<X509, free_openssl>;

inline void succeed(bool well, const char* what) {
  if (!well) throw std::runtime_error(std::string("OpenSSL cannot ") + what);
}

inline key_pointer new_key() {
  EVP_PKEY_CTX* const maker = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nullptr);
  EVP_PKEY* made = nullptr;
  const bool well = EVP_PKEY_keygen_init(maker) == 1 &&
                    EVP_PKEY_CTX_set_ec_paramgen_curve_nid(maker, NID_X9_62_prime256v1) == 1 &&
                    EVP_PKEY_keygen(maker, &made) == 1;
  EVP_PKEY_CTX_free(maker);
  succeed(well, "make a key");
  return key_pointer(made);
}

/// What a certificate says.
struct certificate_wish {
  std::string name = "a rank";
  long days_until_end = 1;  ///< negative: it is over
  const char* purposes = nullptr;
  bool authority = false;
};

inline certificate_pointer new_certificate(const certificate_wish& wish, EVP_PKEY* key, X509* issuer,
                                           EVP_PKEY* issuer_key) {
  static long serial = 0;
  certificate_pointer made(X509_new());
  X509* const c = made.get();
  X509_set_version(c, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(c), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(c), -100L * 24 * 3600);
  X509_gmtime_adj(X509_getm_notAfter(c), wish.days_until_end * 24 * 3600);
  X509_set_pubkey(c, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(wish.name.c_str()), -1, -1, 0);
  X509_set_issuer_name(c, X509_get_subject_name(issuer == nullptr ? c : issuer));
  const auto extend = [&](int what, const char* value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer == nullptr ? c : issuer, c, nullptr, nullptr, 0);
    X509_EXTENSION* const e = X509V3_EXT_conf_nid(nullptr, &context, what, value);
    succeed(e != nullptr && X509_add_ext(c, e, -1) == 1, "extend a certificate");
    X509_EXTENSION_free(e);
  };
  extend(NID_basic_constraints, wish.authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (wish.purposes != nullptr) extend(NID_ext_key_usage, wish.purposes);
  succeed(X509_sign(c, issuer_key, EVP_sha256()) != 0, "sign a certificate");
  return made;
}

template <class Write>
void write_file(const std::string& name, const Write& write) {
  std::FILE* const file = std::fopen(name.c_str(), "w");
  if (file == nullptr) throw std::runtime_error("cannot write " + name);
  write(file);
  std::fclose(file);
}

/// The names of the files of one rank.
struct identity_files {
  std::string certificate;
  std::string private_key;
};

/// Somebody who signs certificates. Its own is in `file`.
class certificate_authority {
 public:
  certificate_authority(const temporary_folder& folder, const std::string& name)
      : folder_(&folder),
        name_(name),
        key_(new_key()),
        certificate_(new_certificate({.name = name, .authority = true}, key_.get(), nullptr, key_.get())),
        file(folder / (name + ".pem")) {
    write_file(file, [&](std::FILE* f) { PEM_write_X509(f, certificate_.get()); });
  }
  /// Another one, whose certificate this one signs.
  certificate_authority(const certificate_authority& parent, const std::string& name)
      : folder_(parent.folder_),
        name_(name),
        key_(new_key()),
        certificate_(new_certificate({.name = name, .authority = true}, key_.get(), parent.certificate_.get(),
                                     parent.key_.get())),
        file(parent.file) {
    between_ = certificate_.get();
  }

  X509* certificate() const { return certificate_.get(); }

  identity_files sign(const certificate_wish& wish, const char* passphrase = nullptr) const {
    const key_pointer key = new_key();
    const certificate_pointer made = new_certificate(wish, key.get(), certificate_.get(), key_.get());
    const identity_files files{*folder_ / (name_ + " " + wish.name + ".crt"),
                               *folder_ / (name_ + " " + wish.name + ".key")};
    write_file(files.certificate, [&](std::FILE* f) {
      PEM_write_X509(f, made.get());
      if (between_ != nullptr) PEM_write_X509(f, between_);
    });
    write_file(files.private_key, [&](std::FILE* f) {
      PEM_write_PrivateKey(f, key.get(), passphrase == nullptr ? nullptr : EVP_aes_128_cbc(), nullptr, 0, nullptr,
                           const_cast<char*>(passphrase));  // NOLINT: it is only read
    });
    return files;
  }

 private:
  const temporary_folder* folder_;
  std::string name_;
  key_pointer key_;
  certificate_pointer certificate_;
  X509* between_ = nullptr;

 public:
  std::string file;
};

}  // namespace test
